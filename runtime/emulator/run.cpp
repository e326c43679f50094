// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "kdagen/error.h"
#include "runtime/emulator/machine.h"

namespace kdagen::emulator {
namespace {

/// Makes a machine the one of this host thread for a scope.
class Activation {
 public:
  explicit Activation(Machine& machine) : previous_(current_machine()) { current_machine() = &machine; }
  ~Activation() { current_machine() = previous_; }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

 private:
  Machine* previous_;
};

void check_arguments(const Module& module, const std::string& entry, Dim3 block, std::size_t word_count, bool check) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > Block::max_threads)
    throw UsageError(fmt::format("emulator: {} is launched with {} threads a block; 1 to {} would pass", entry, threads,
                                 Block::max_threads));
  if (const std::size_t expected = module.argument_words(entry); expected != word_count)
    throw UsageError(fmt::format("emulator: {} takes {} argument words, not {}", entry, expected, word_count));
  if (check && !module.instrumented())
    throw UsageError(
        fmt::format("emulator: {} was compiled without check; compile it with check or run it without", module.path()));
}

std::vector<std::uint64_t> block_order(std::uint64_t count, unsigned seed) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (seed) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

}  // namespace

std::vector<std::string> run(const Module& module, const std::string& entry, Dim3 grid, Dim3 block,
                             std::size_t dynamic_shared_bytes, const void* argument_words, std::size_t word_count,
                             const std::vector<Buffer>& buffers, const Options& options) {
  check_arguments(module, entry, block, word_count, options.check);
  const auto kernel = reinterpret_cast<KernelFunction>(module.entry(entry));
  // Argument structs that hold tensor maps are 64-byte aligned.
  struct alignas(64) Line {
    std::uint64_t words[8];
  };
  std::vector<Line> arguments((word_count + 7) / 8);
  std::memcpy(arguments.data(), argument_words, 8 * word_count);
  const auto machine =
      std::make_unique<Machine>(module, kernel, arguments.data(), grid, block, dynamic_shared_bytes, buffers, options);
  const Activation activation(*machine);
  for (const std::uint64_t number : block_order(std::uint64_t{grid.x} * grid.y * grid.z, options.order_seed)) {
    const Dim3 index{static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                     static_cast<unsigned>(number / grid.x / grid.y)};
    if (!machine->block.run(index, number)) break;
  }
  return machine->faults.reports(module);
}

}  // namespace kdagen::emulator
