// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/owners.h"

#include <fmt/format.h>

#include "codegen/emit/statements.h"

using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

/// The totals of a segment's tiles, in the order of the tiles, by a thread a segment.
void print_segment_sums(Writer& out, const Program& program, const Names& names, const std::string& owned) {
  const Tiling& tiling = program.tiling;
  bool any = false;
  for (const Statement& s : program.owner_statements) any = any || s.kind == Kind::Accumulate;
  if (!any || tiling.tiles_per_block < kTilesPerSegment) return;  // then each tile's total is stored
  out.line("block_barrier();  // the totals of the tiles are complete");
  out.open(fmt::format("if (threadIdx.x < {0} && {2} + {1} * threadIdx.x < end)",
                       tiling.owned_tiles() / kTilesPerSegment, kTilesPerSegment, owned));
  out.line(fmt::format("const long long segment = {} / {} + threadIdx.x;", owned, kTilesPerSegment));
  for (const Statement& s : program.owner_statements) {
    if (s.kind != Kind::Accumulate) continue;
    const ParameterSum& sum =
        *llvm::find_if(program.parameter_sums, [&](const ParameterSum& p) { return p.op == s.op; });
    out.line(fmt::format("float {} = 0.0f;", sum.name));
    out.line(fmt::format("for (int i = 0; i < {0}; ++i) {1} += {2}[{0} * threadIdx.x + i];", kTilesPerSegment, sum.name,
                         names.buffer(s.buffer)));
    out.line(fmt::format("arguments.{0}_partial[head * arguments.segments + segment] = {0};", sum.name));
  }
  out.close();
  out.line("block_barrier();  // every thread is done with the totals");
}
}  // namespace

void print_owners(Writer& out, const Program& program, const Names& names, std::set<std::string>& helpers) {
  if (program.owner_statements.empty()) return;
  const Tiling& tiling = program.tiling;
  out.line();
  bool once = tiling.tiles_per_block <= tiling.owned_tiles();
  std::string owned = once ? "begin" : "owned";
  out.line(fmt::format("// Row owners: what needs one number a row is done by a thread a row, {}.",
                       once ? "for all tiles of the block" : fmt::format("{} tiles at a time", tiling.owned_tiles())));
  out.line(fmt::format(
      "const int own_row = static_cast<int>(threadIdx.x % {0}), own_tile = static_cast<int>(threadIdx.x / {0});",
      tiling.chunk));
  out.open(once ? "" : fmt::format("for (long long owned = begin; owned < end; owned += {})", tiling.owned_tiles()));
  out.line(fmt::format("const long long number = {} + own_tile;", owned));
  // Threads that are left over when every tile has its own would do the first rows of the next round.
  bool left_over = !once && tiling.threads % tiling.chunk != 0;
  out.line(fmt::format("const Tile tile = number >= used_end{} ? Tile{{}}",
                       left_over ? fmt::format(" || own_tile >= {}", tiling.owned_tiles()) : ""));
  out.line("    : arguments.cu_seqlens != nullptr");
  out.line(fmt::format(
      "        ? find_packed_tile(number, {}, arguments.sequences, arguments.first_tile, arguments.sequence_start)",
      tiling.chunk));
  out.line(fmt::format("        : find_tile(number, {}, arguments.tokens);", tiling.chunk));
  StatementPrinter printer(program, names, out, Place::Owners);
  printer.print(program.owner_statements);
  print_segment_sums(out, program, names, owned);
  out.close();
  helpers.insert(printer.helpers().begin(), printer.helpers().end());
}

}  // namespace kdagen::emit
