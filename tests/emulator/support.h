// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of these tests and runs the sample kernel on buffers of its own.
#pragma once
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/emulator/emulator.h"

namespace kdagen::emulator::testing {

/// The text of tests/emulator/kernels/FILE.
std::string kernel_text(const std::string& file);
std::string include_directory();
std::string host_compiler();

/// Loads tests/emulator/kernels/FILE; compiled once per content, whatever the number of test processes.
std::shared_ptr<const Module> load_kernels(const std::string& file, bool check);
/// Likewise for a text.
std::shared_ptr<const Module> load_text(const std::string& text, const std::string& name, bool check);

/// An argument word.
template <class T>
std::int64_t word(T* pointer) {
  return std::bit_cast<std::int64_t>(pointer);
}

/// Runs an entry of FILE without checks; arguments beyond the buffers' reach are the caller's affair.
void run_words(const std::string& file, const std::string& entry, Dim3 grid, Dim3 block,
               const std::vector<std::int64_t>& words);

/// The line of FILE that ends with "// at: NAME".
int marked_line(const std::string& file, const std::string& name);

/// An array far away from every other.
template <class T>
class GuardedArray : public std::span<T> {
 public:
  explicit GuardedArray(std::size_t count) : GuardedArray(allocate_guarded(count * sizeof(T)), count) {}
  std::vector<T> copy() const { return {this->begin(), this->end()}; }

 private:
  GuardedArray(std::shared_ptr<void> memory, std::size_t count)
      : std::span<T>(static_cast<T*>(memory.get()), count), memory_(std::move(memory)) {}
  std::shared_ptr<void> memory_;
};

/// The buffers of kernels/sample.cu for a number of tokens; outputs start as zeros.
struct Sample {
  explicit Sample(int tokens);

  std::vector<Buffer> buffers() const;
  /// Runs entry `name`; results land in the arrays.
  std::vector<std::string> run(const std::string& name, const Options& options = {});

  int tokens, tiles;
  GuardedArray<std::uint16_t> x;  // bf16
  GuardedArray<float> y;
  GuardedArray<std::uint16_t> last;  // bf16
  GuardedArray<float> weight, total;
};

}  // namespace kdagen::emulator::testing
