// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/emit.h"

#include <fmt/format.h>

#include "codegen/emit/finish.h"
#include "codegen/emit/helpers.h"
#include "codegen/emit/manifest.h"
#include "codegen/emit/owners.h"
#include "codegen/emit/staging.h"
#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"
#include "codegen/schedule/schedule.h"
#include "codegen/schedule/shared_memory.h"
#include "kdagen/error.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

constexpr int kStaticSharedBytes = 48 * 1024;

class KernelText {
 public:
  KernelText(Program& program, const EmitOptions& options)
      : program_(program), options_(options), kernel_(program.kernel) {
    mark_tile_major();
    names_ = std::make_unique<Names>(program);
    for (ParameterSum& sum : program.parameter_sums)
      sum.name = names_->claim(names_->base(sum.op.getResult()) + "_sum");
    manifest_ = describe(program, *names_, options);
    staging_ = std::make_unique<StagingPrinter>(program, *names_, manifest_.kernel);
  }

  Emitted run() {
    Writer body;
    print_body(body);
    Writer launches;
    print_entries(launches);
    Writer finish;
    print_segments_kernel(finish, program_, manifest_);
    print_finish_kernel(finish, program_, *names_, manifest_, helpers_);
    Writer head;
    print_header(head);
    print_helpers(head, program_.tiling, helpers_);
    print_first_tile(head);
    staging_->print_function(head);
    Emitted result;
    result.text = head.take() + body.take() + launches.take() + finish.take();
    manifest_.text_hash = hash_text(result.text);
    result.manifest = manifest_;
    return result;
  }

 private:
  void mark_tile_major() {
    if (options_.compile.upstream_layout != kdagen::UpstreamLayout::tile) return;
    for (auto input : kernel_.block().getOps<InputOp>())
      if (input.getRole() == "cotangent") program_.tile_major.insert(input.getTensor().str());
  }

  void print_header(Writer& out) {
    const Tiling& tiling = program_.tiling;
    bool forward = kernel_.getDirection() == "fwd";
    out.line("// SPDX-License-Identifier: Apache-2.0");
    out.line(fmt::format("// {} {}: {}", kernel_.getSpec().str(), forward ? "forward" : "backward, derived",
                         options_.summary));
    std::string settings;
    for (auto option : kernel_.getOptions())
      if (auto text = mlir::dyn_cast<mlir::StringAttr>(option.getValue()))
        settings += (settings.empty() ? "" : " ") + option.getName().str() + "=" + text.str();
    for (size_t begin = 0; begin < settings.size();) {  // wrapped at spaces
      size_t end = settings.size() - begin <= 100 ? settings.size() : settings.rfind(' ', begin + 100);
      out.line("//   " + settings.substr(begin, end - begin));
      begin = end + 1;
    }
    out.line(fmt::format("//   spec {}  {}  tile {} rows x {} columns in {} step{}  {}", options_.spec_hash,
                         options_.arch, tiling.chunk, tiling.dim, tiling.steps, tiling.steps == 1 ? "" : "s",
                         tiling_text(tiling)));
    out.line("//   remake: " + options_.remake);
    if (!options_.formulas.empty()) out.line("//");
    for (const std::string& formula : options_.formulas) out.line("//   " + formula);
    out.line("#include <kdagen/device.cuh>");
    if (staging_->any()) out.line("#include <kdagen/staging.cuh>");
    if (has_integers(kernel_)) out.line("#include <kdagen/integers.cuh>");
    if (has_fixed_point(kernel_)) out.line("#include <kdagen/fixed_point.cuh>");
    out.line();
    for (const auto& [name, scalar] : names_->constants())
      out.line(fmt::format("constexpr float {} = {};  // {}", name, float_literal(scalar.value()), scalar.text()));
    if (!names_->constants().empty()) out.line();
    out.open("struct Arguments");
    for (const Member& member : argument_members(program_, *names_, manifest_))
      out.line(
          fmt::format("{} {};{}", member.type, member.name, member.comment.empty() ? "" : "  // " + member.comment));
    out.close(";");
    out.line();
    staging_->print_record(out);
  }

  void print_first_tile(Writer& out) {
    std::string entry = manifest_.kernel + "_first_tile";
    out.open(fmt::format("KD_KERNEL(256, 0) void {}({})", entry, staging_->parameter()));
    out.line("KD_SHARED(long long, counts, 256);");
    out.line(fmt::format(
        "write_first_tiles(Offsets{{arguments.cu_seqlens, arguments.offset_bytes, arguments.tokens}}, arguments.sequences, {},",
        program_.tiling.chunk));
    out.line("                  arguments.first_tile, arguments.sequence_start, counts);");
    out.close();
    out.line(fmt::format("KD_ENTRY({}, Arguments);", entry));
    out.line();
  }

  // ---- the main kernel -------------------------------------------------------------------------------------------
  void print_body(Writer& out) {
    const Tiling& tiling = program_.tiling;
    out.line("template <bool aligned>");
    out.open(fmt::format("KD_FUNCTION void {}_tiles(const Arguments& arguments, float* shared)", manifest_.kernel));
    print_thread_maps(out);
    for (size_t i = 0; i < program_.buffers.size(); ++i) print_buffer(out, int(i));
    int per_group = std::max(tiling.tiles_per_block, 1);
    if (tiling.heads_fastest)
      out.line(
          "const unsigned heads = static_cast<unsigned>(arguments.heads), head_number = blockIdx.x % heads, group_number = blockIdx.x / heads;");
    else
      out.line(fmt::format(
          "const unsigned groups = static_cast<unsigned>((arguments.tiles + {}) / {}), head_number = blockIdx.x / groups, group_number = blockIdx.x % groups;",
          per_group - 1, per_group));
    out.line("const long long head = head_number, group = group_number;");
    out.line("(void)shared, (void)head;");
    print_tiles_of_block(out);
    if (staging_->any()) staging_->print_start(out);
    StatementPrinter prologue(program_, *names_, out, Place::Tile);
    keep_for_tiles(prologue);
    prologue.print(program_.prologue);
    print_owners(out, program_, *names_, helpers_);
    print_tile_loops(out);
    print_surplus_tiles(out);
    out.close();
    out.line();
    helpers_.insert(prologue.helpers().begin(), prologue.helpers().end());
  }

  void print_buffer(Writer& out, int i) {
    const Buffer& buffer = program_.buffers[i];
    std::string type = value_type(buffer.value), name = names_->buffer(i),
                place = fmt::format("shared + {}", buffer.offset), sharers;
    auto end = [&](const Buffer& b) { return b.offset + buffer_floats(b, program_.tiling); };
    for (int j = 0; j < i; ++j)
      if (const Buffer& other = program_.buffers[j]; other.offset < end(buffer) && buffer.offset < end(other))
        sharers += (sharers.empty() ? "  // never needed at the same time as " : ", ") + names_->buffer(j);
    out.line((type == "float" ? fmt::format("float* const {} = {};", name, place)
                              : fmt::format("{0}* const {1} = reinterpret_cast<{0}*>({2});", type, name, place)) +
             sharers);
  }

  void print_thread_maps(Writer& out) {
    const Tiling& tiling = program_.tiling;
    out.line(fmt::format("// Row map: {} lanes a row, {} rows at a time.", tiling.lanes, tiling.rows_per_step));
    out.line(fmt::format(
        "const int lane = static_cast<int>(threadIdx.x % {0}), step_row = static_cast<int>(threadIdx.x / {0});",
        tiling.lanes));
    out.line("// Column map: one column, one block of 8 rows.");
    out.line(fmt::format(
        "const int column = static_cast<int>(threadIdx.x % {0}), block = static_cast<int>(threadIdx.x / {0});",
        tiling.width));
    if (tiling.steps == 1) out.line("const int row = step_row, first_row = 8 * block;");
    out.line(tiling.steps == 1 ? "(void)lane, (void)row, (void)column, (void)first_row;"
                               : "(void)lane, (void)step_row, (void)column, (void)block;");
  }

  void print_rows_here(Writer& out) {
    out.line(
        "const int rows_here = tile.rows - first_row;  // rows of this thread's block that are there: i < rows_here");
    out.line("(void)rows_here;");
  }

  /// What the prologue computes is used in the tiles: it all needs variables.
  void keep_for_tiles(StatementPrinter& printer) {
    for (const Statement& s : program_.prologue) printer.keep(s.value, s.map);
  }

  void print_tile_loops(Writer& out) {
    const Tiling& tiling = program_.tiling;
    bool sums = !program_.parameter_sums.empty();
    auto zero_sums = [&] {
      for (const ParameterSum& sum : program_.parameter_sums)
        if (!sum.by_owners) out.line(fmt::format("float {} = 0.0f;", sum.name));
    };
    auto print_tiles = [&](const std::string& first, const std::string& last, const std::string& partial,
                           const std::string& partials) {
      bool each = partial == "number";  // a partial sum a tile
      if (!each) zero_sums();
      out.open(
          fmt::format("for (long long number = {}; number < {}; ++number{})", first, last, staging_->advance_tile()));
      if (each) zero_sums();
      print_tile(out);
      if (each && sums) print_partials(out, partial, partials);
      out.close();
      if (!each && sums) print_partials(out, partial, partials);
    };
    if (tiling.tiles_per_block < kTilesPerSegment) return print_tiles("begin", "used_end", "number", "arguments.tiles");
    if (tiling.tiles_per_block == kTilesPerSegment)
      return print_tiles("begin", "used_end", "group", "arguments.segments");
    out.open(fmt::format("for (long long segment = begin / {0}; segment * {0} < end; ++segment)", kTilesPerSegment));
    out.line(
        fmt::format("const long long first = segment * {0}, last = first + {0} < used_end ? first + {0} : used_end;",
                    kTilesPerSegment));
    print_tiles("first", "last", "segment", "arguments.segments");
    out.close();
  }

  void print_tiles_of_block(Writer& out) {
    int tiles = std::max(program_.tiling.tiles_per_block, 1);
    out.line(fmt::format(
        "const long long begin = group * {0}, end = begin + {0} < arguments.tiles ? begin + {0} : arguments.tiles;",
        tiles));
    out.line("// Tiles from `used` on lie after the last sequence.");
    out.line(
        "const long long used = arguments.cu_seqlens != nullptr ? arguments.first_tile[arguments.sequences] : arguments.tiles;");
    out.line("const long long used_end = used < end ? used : end;");
  }

  void print_partials(Writer& out, const std::string& index, const std::string& count) {
    for (const ParameterSum& sum : program_.parameter_sums) {
      if (sum.by_owners) continue;
      int width = partial_width(program_, sum);
      if (sum.partial == Shape::Columns)
        out.line(fmt::format("if (block == 0) arguments.{0}_partial[(head * {1} + {2}) * {3} + column] = {0};",
                             sum.name, count, index, width));
      else
        out.line(fmt::format("if (threadIdx.x == 0) arguments.{0}_partial[head * {1} + {2}] = {0};", sum.name, count,
                             index));
    }
  }

  void print_tile(Writer& out) {
    const Tiling& tiling = program_.tiling;
    if (staging_->any()) {
      staging_->print_arrival(out);
    } else {
      out.line("const Tile tile = arguments.cu_seqlens != nullptr");
      out.line(fmt::format(
          "    ? find_packed_tile(number, {}, arguments.sequences, arguments.first_tile, arguments.sequence_start)",
          tiling.chunk));
      out.line(fmt::format("    : find_tile(number, {}, arguments.tokens);", tiling.chunk));
    }
    if (tiling.steps == 1) print_rows_here(out);
    StatementPrinter printer(program_, *names_, out, Place::Tile);
    printer.set_restage([&](Writer& writer, int region) { staging_->print_restage(writer, region); });
    for (int r = 0; r < int(program_.regions.size()); ++r) {
      const Region& region = program_.regions[r];
      if (region.statements.empty()) continue;
      out.line();
      if (!region.loop) {
        staging_->print_operands(out, r);
        for (const Statement& s : region.statements)
          if (tiling.steps > 1) printer.keep(s.value, s.map);
        printer.print(region.statements);
        continue;
      }
      for (const Statement& s : region.statements)
        if (s.kind == Kind::ScanCarry)
          out.line(fmt::format("{} {}_carry = {};", value_type(s.value), names_->of(s.value, s.map), zero_of(s.value)));
      std::string advance = staging_->advance_step(r);
      bool whole = program_.staging.whole(r);
      if (whole) {  // the operands of all steps
        out.open();
        staging_->print_operands(out, r);
      }
      out.open(region.reverse ? fmt::format("for (int step = {}; step >= 0; --step{})", tiling.steps - 1, advance)
                              : fmt::format("for (int step = 0; step < {}; ++step{})", tiling.steps, advance));
      out.line(fmt::format("const int row = step * {0} + step_row, first_row = step * {0} + 8 * block;",
                           tiling.rows_per_step));
      out.line("(void)row, (void)first_row;");
      print_rows_here(out);
      if (!whole) staging_->print_operands(out, r);
      StatementPrinter step(program_, *names_, out, Place::Tile);
      step.set_restage([&](Writer& writer, int region) { staging_->print_restage(writer, region); });
      step.set_whole(whole);
      step.print(region.statements);
      helpers_.insert(step.helpers().begin(), step.helpers().end());
      out.close();
      if (whole) out.close();
    }
    helpers_.insert(printer.helpers().begin(), printer.helpers().end());
  }

  /// Tiles after the last sequence: their rows of every output become 0, and their share in a parameter's sum. Whatever
  /// belongs to a tile has heads (inputs and row numbers do, and nothing sums heads in a tile).
  void print_surplus_tiles(Writer& out) {
    const Tiling& tiling = program_.tiling;
    out.line("// After the last sequence: dead rows are set to 0.");
    out.open("for (long long number = used_end < begin ? begin : used_end; number < end; ++number)");
    out.line(fmt::format(
        "const Tile tile = find_surplus_tile(number, {}, arguments.tokens, arguments.sequences, arguments.first_tile, arguments.sequence_start);",
        tiling.chunk));
    bool any_rows = false, zeros = false;
    auto is_listed = [](OutputOp output, AxisAttr axis) { return lists(output.getAxes(), axis); };
    auto rows = kernel_.axis(AxisRole::Rows), feature = kernel_.axis(AxisRole::Feature);
    for (auto output : kernel_.block().getOps<OutputOp>()) {
      if (section_of(output.getValue()) != Section::Tile) continue;
      any_rows |= is_listed(output, rows) && output.getEvery() == 0;
      zeros |= is_listed(output, feature);
    }
    if (zeros) {
      out.line("const float zeros[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};");
      helpers_.insert("store_row");
    }
    auto print = [&](bool with_rows) {
      for (auto output : kernel_.block().getOps<OutputOp>()) {
        if (section_of(output.getValue()) != Section::Tile ||
            (is_listed(output, rows) && output.getEvery() == 0) != with_rows)
          continue;
        std::string guard;
        auto also = [&](const std::string& condition) { guard += (guard.empty() ? "" : " && ") + condition; };
        if (!with_rows) also("step_row == 0");
        std::string member = "arguments." + names_->tensor(output.getTensor().str());
        std::string at = with_rows
                             ? fmt::format("{}.at(tile.batch, tile.token + row, head)", member)
                             : fmt::format("{}.at(head, number, {})", member, output.getEvery() > 0 ? "part" : "0");
        if (!is_listed(output, feature)) also("lane == 0");
        std::string condition = guard.empty() ? "" : "if (" + guard + ") ";
        if (output.getEvery() > 0)
          condition += fmt::format("for (int part = 0; part < {}; ++part) ", subchunks(tiling, output));
        if (is_listed(output, feature))
          out.line(fmt::format("{}store_row<aligned>({}, lane, zeros);", condition, at));
        else
          out.line(fmt::format("{}*{} = to<{}>(0.0f);", condition, at, storage_type(output.getStorage())));
      }
    };
    if (any_rows) {
      out.open(fmt::format("for (int row = step_row; row < tile.rows; row += {})", tiling.rows_per_step));
      print(true);
      out.close();
    }
    print(false);
    if (tiling.tiles_per_block < kTilesPerSegment) {
      for (const ParameterSum& sum : program_.parameter_sums)
        if (!sum.by_owners) out.line(fmt::format("const float {} = 0.0f;", sum.name));
      print_partials(out, "number", "arguments.tiles");
    }
    out.close();
  }

  void print_entries(Writer& out) {
    const Tiling& tiling = program_.tiling;
    int floats = std::max(program_.shared_floats, 4), bytes = floats * 4;
    bool dynamic = bytes > kStaticSharedBytes || staging_->any();  // boxes arrive at multiples of 128
    std::string entry = manifest_.kernel, any = entry + "_any";
    for (auto [name, aligned] : {std::pair{entry, true}, {any, false}}) {
      out.line(variant_guard(aligned));
      // Element by element takes a few registers more, above all from memory itself; rather one block fewer than a
      // spill.
      bool tight = !aligned && tiling.min_blocks > (tiling.stages > 0 && program_.staging.by_engine ? 2 : 1);
      int blocks = tiling.min_blocks - int(tight);
      out.open(fmt::format("KD_KERNEL({}, {}) void {}({})", tiling.threads, blocks, name, staging_->parameter()));
      out.line(dynamic ? "KD_DYNAMIC_SHARED(float, shared);" : fmt::format("KD_SHARED(float, shared, {});", floats));
      out.line(fmt::format("{}_tiles<{}>(arguments, shared);", entry, aligned));
      out.close();
      out.line(fmt::format("KD_ENTRY({}, Arguments);", name));
      out.line("#endif");
      out.line();
    }
    manifest_.launches.push_back({entry + "_first_tile", "", runtime::When::packed, {{"1"}}, 256, 0, 1});
    manifest_.launches.push_back({entry,
                                  any,
                                  runtime::When::always,
                                  {{"tile_blocks", "heads"}},
                                  tiling.threads,
                                  dynamic ? bytes : 0,
                                  tiling.tiles_per_block});
  }

  Program& program_;
  const EmitOptions& options_;
  KernelOp kernel_;
  std::unique_ptr<Names> names_;
  std::unique_ptr<StagingPrinter> staging_;
  runtime::Manifest manifest_;
  std::set<std::string> helpers_;
};
}  // namespace

Emitted emit(Program& program, const EmitOptions& options) { return KernelText(program, options).run(); }

}  // namespace kdagen::emit
