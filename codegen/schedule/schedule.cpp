// SPDX-License-Identifier: Apache-2.0
#include "codegen/schedule/schedule.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "codegen/schedule/early_joins.h"
#include "codegen/schedule/homes.h"
#include "codegen/schedule/order.h"
#include "codegen/schedule/placement.h"
#include "codegen/schedule/registers.h"
#include "codegen/schedule/row_owners.h"
#include "codegen/schedule/shared_memory.h"
#include "codegen/schedule/staging.h"
#include "codegen/schedule/sweeps.h"
#include "kdagen/error.h"
#include "mlir/IR/AsmState.h"

using namespace kdagen::kda;

namespace kdagen::schedule {
namespace {

constexpr int kColumnsPerLane = 8;

std::map<std::string, int> parse_keys(const std::string& text) {
  std::map<std::string, int> keys;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(',', begin), text.size()), equals = text.find('=', begin);
    std::string item = text.substr(begin, end - begin);
    int value = 0;
    bool known = equals < end;
    std::string key = known ? text.substr(begin, equals - begin) : item;
    if (known) {
      auto [rest, error] = std::from_chars(text.data() + equals + 1, text.data() + end, value);
      known = error == std::errc() && rest == text.data() + end;
    }
    if (!known || (key != "threads" && key != "tiles_per_block" && key != "min_blocks" && key != "heads_fastest" &&
                   key != "stages"))
      throw UsageError(
          fmt::format("option schedule: '{}' is not understood; default, baseline, tuned, or a list of threads=N, "
                      "tiles_per_block=N, min_blocks=N, heads_fastest=0|1, stages=N would pass",
                      item));
    keys[key] = value;
    begin = end + 1;
  }
  return keys;
}

void check(const Tiling& tiling, const std::string& schedule) {
  int least = std::max(tiling.width, 32);
  bool threads = std::has_single_bit(unsigned(tiling.threads)) && tiling.threads >= least && tiling.threads <= 1024;
  if (!threads)
    throw UsageError(fmt::format("option schedule={}: threads must be a power of two from {} to 1024 at dim {}",
                                 schedule, least, tiling.dim));
  bool tiles = tiling.tiles_per_block == 1 || tiling.tiles_per_block == 2 || tiling.tiles_per_block == 4 ||
               (tiling.tiles_per_block > 0 && tiling.tiles_per_block % kTilesPerSegment == 0);
  if (!tiles)
    throw UsageError(fmt::format("option schedule={}: tiles_per_block must be 1, 2, 4 or a multiple of 8", schedule));
  if (tiling.min_blocks < 0 || tiling.min_blocks > 8)
    throw UsageError(fmt::format("option schedule={}: min_blocks must be from 0 to 8", schedule));
  if (tiling.stages < -1 || tiling.stages > 8)
    throw UsageError(fmt::format("option schedule={}: stages must be from 0 to 8", schedule));
}
}  // namespace

namespace {
Tiling with_threads(Tiling tiling, int threads) {
  tiling.threads = threads;
  tiling.rows_per_step = threads / tiling.lanes;
  tiling.steps = (tiling.chunk + tiling.rows_per_step - 1) / tiling.rows_per_step;
  return tiling;
}
}  // namespace

Tiling choose_tiling(KernelOp kernel, const ScheduleOptions& options) {
  Tiling tiling;
  bool feature = bool(kernel.axis(AxisRole::Feature));
  tiling.stages = -1;  // as many as fit; decided when the buffers are known
  tiling.chunk = int(kernel.chunk());
  tiling.dim = feature ? int(kernel.dim()) : 1;
  tiling.width = feature ? std::max(kColumnsPerLane, int(std::bit_ceil(unsigned(tiling.dim)))) : 1;
  tiling.lanes = feature ? tiling.width / kColumnsPerLane : 1;
  tiling.heads_fastest = options.layout == "bthd";
  int least = std::max(tiling.width, 32);
  // A tile in one step where 512 threads hold it, else steps of 256 threads: several portions travel at a time.
  int whole = int(std::bit_ceil(unsigned(tiling.chunk * tiling.lanes)));
  tiling.threads = std::max(whole <= 512 ? whole : 256, least);
  // A block that sums over its tiles hands over a sum a segment; without sums a shorter last wave of blocks is worth
  // more.
  bool sums = llvm::any_of(kernel.block().getOps<SumOp>(), [](SumOp sum) {
    return section_of(sum.getX()) == Section::Tile && section_of(sum.getResult()) != Section::Tile;
  });
  tiling.tiles_per_block = sums ? kTilesPerSegment : kTilesPerSegment / 2;
  if (options.schedule == "baseline") {
    if (!feature)
      throw UsageError("option schedule=baseline: the spec has no feature axis; schedule=default would pass");
    tiling.threads = 256;
    tiling.tiles_per_block = 1;
    tiling.stages = 0;
  } else if (options.schedule != "default" && options.schedule != "tuned" && !options.schedule.empty()) {
    for (const auto& [key, value] : parse_keys(options.schedule)) {
      if (key == "threads") tiling.threads = value;
      if (key == "tiles_per_block") tiling.tiles_per_block = value;
      if (key == "min_blocks") tiling.min_blocks = value;
      if (key == "heads_fastest") tiling.heads_fastest = value != 0;
      if (key == "stages") tiling.stages = value;
    }
  }
  check(tiling, options.schedule);
  return with_threads(tiling, tiling.threads);
}

std::string tiling_text(const Tiling& tiling) {
  return fmt::format("threads={},tiles_per_block={},min_blocks={},heads_fastest={},stages={}", tiling.threads,
                     tiling.tiles_per_block, tiling.min_blocks, int(tiling.heads_fastest), tiling.stages);
}

namespace {
int arch_number(const std::string& arch) {
  int number = 0;
  std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}
}  // namespace

int shared_limit(const std::string& arch) {
  static const std::map<std::string, int> limits = {{"sm_80", 163}, {"sm_86", 99},   {"sm_87", 163},  {"sm_89", 99},
                                                    {"sm_90", 227}, {"sm_100", 227}, {"sm_103", 227}, {"sm_110", 227},
                                                    {"sm_120", 99}, {"sm_121", 99}};
  std::string base = !arch.empty() && arch.back() == 'a' ? arch.substr(0, arch.size() - 1) : arch;
  auto it = limits.find(base);
  if (it == limits.end())
    throw UsageError(fmt::format(
        "--arch {}: not an architecture that emitted text can target; sm_80, 86, 87, 89, 90, 100, 103, 110, 120 or 121 would pass",
        arch));
  return it->second * 1024;
}

namespace {
Program schedule_with(KernelOp kernel, const Tiling& tiling, const ScheduleOptions& options) {
  Program program;
  program.kernel = kernel;
  program.tiling = tiling;
  Homes homes = assign_homes(program.kernel);
  Sweeps sweeps = assign_sweeps(program.kernel, program.tiling.steps);
  auto owners = find_row_owners(program.kernel, program.tiling);
  order_statements(program, homes, sweeps, owners);
  order_row_owners(program, owners);
  join_early(program);
  place_buffers(program);
  insert_barriers(program);
  int limit = shared_limit(options.arch), number = arch_number(options.arch);
  StagingLimits limits{number >= 90, limit, limit + 1024};
  stage_operands(program, program.tiling.stages, options.schedule.find("min_blocks") == std::string::npos, limits);
  int needed = program.shared_floats * 4;
  if (needed > limit)
    throw UsageError(fmt::format(
        "{}: {} bytes of shared memory needed at chunk {} and dim {}, {} has {}; a smaller chunk or dim would pass",
        program.kernel.getSpec().str(), needed, program.tiling.chunk, program.tiling.dim, options.arch, limit));
  return program;
}
}  // namespace

Program schedule(mlir::ModuleOp module, const ScheduleOptions& options) {
  KernelOp kernel = *module.getOps<KernelOp>().begin();
  Tiling tiling = choose_tiling(kernel, options);
  Program program = schedule_with(kernel, tiling, options);
  bool free = options.schedule.find("threads") == std::string::npos && options.schedule != "baseline";
  if (!free || tiling.steps == 1 || tiling.threads >= 512) return program;
  // Longer steps where they bring more threads onto a multiprocessor.
  Tiling longer = with_threads(tiling, 512);
  if (longer.steps < 1 || program.tiling.stages == 0) return program;
  Program other = schedule_with(kernel, longer, options);
  auto resident = [](const Program& p) { return p.tiling.stages > 0 ? p.tiling.threads * p.tiling.min_blocks : 0; };
  return resident(other) > resident(program) ? other : program;
}

std::string to_text(const Program& program) {
  static const char* const kinds[] = {"load",        "pointwise",    "row_reduce",    "publish",        "fetch",
                                      "scan_blocks", "scan_carry",   "row_scan",      "block_totals",   "total",
                                      "row_total",   "publish_last", "fetch_shifted", "fetch_boundary", "store",
                                      "accumulate",  "barrier",      "load_ahead",    "restage"};
  KernelOp kernel = program.kernel;
  std::string text =
      fmt::format("// {} {}: {}\n", kernel.getSpec().str(), kernel.getDirection().str(), tiling_text(program.tiling));
  mlir::AsmState state(kernel.getOperation());
  auto print = [&](const Statement& s, const char* indent) {
    std::string value;
    llvm::raw_string_ostream stream(value);
    if (s.value) s.value.printAsOperand(stream, state);
    if (s.value && user_name(s.value)) stream << " " << *user_name(s.value);
    if (s.op) stream << " = " << s.op->getName();
    if (s.buffer >= 0) stream << " buffer " << s.buffer;
    if (!s.note.empty()) stream << " " << s.note;
    text +=
        fmt::format("{}{} {} {}\n", indent, s.map == Map::Row ? "row   " : "column", kinds[int(s.kind)], stream.str());
  };
  text += "prologue\n";
  for (const Statement& s : program.prologue) print(s, "  ");
  for (const Region& region : program.regions) {
    text += region.loop ? (region.reverse ? "steps, last to first\n" : "steps\n") : "tile\n";
    for (const Statement& s : region.statements) print(s, "  ");
  }
  if (!program.owner_statements.empty()) text += "owners of rows\n";
  for (const Statement& s : program.owner_statements) print(s, "  ");
  for (StagedTensor tensor : program.staging.tensors)
    text += fmt::format("staged {}: {} bytes at {} of a slot\n", tensor.input.getTensor().str(), tensor.bytes,
                        tensor.offset);
  for (const Buffer& buffer : program.buffers) {
    std::string value;
    llvm::raw_string_ostream stream(value);
    buffer.value.printAsOperand(stream, state);
    if (user_name(buffer.value)) stream << " " << *user_name(buffer.value);
    text += fmt::format("buffer {} ({} of {}): {} floats at {}\n", &buffer - program.buffers.data(), buffer.name, value,
                        buffer_floats(buffer, program.tiling), buffer.offset);
  }
  text += fmt::format("registers: {} for values\n", live_registers(program));
  text += fmt::format("shared memory: {} bytes in {} buffers and {} slots\n", program.shared_floats * 4,
                      program.buffers.size(), program.tiling.stages);
  return text;
}

}  // namespace kdagen::schedule
