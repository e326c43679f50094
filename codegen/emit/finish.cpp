// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/finish.h"

#include <fmt/format.h>

#include "codegen/emit/helpers.h"
#include "codegen/emit/statements.h"
#include "codegen/schedule/homes.h"
#include "kdagen/error.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {
constexpr int kColumnsPerBlock = 32;  // of sum_segments

/// The statements of the finish kernel: those in the loop over heads, and those after it.
class Finish {
 public:
  explicit Finish(const Program& program) : program_(program) {
    KernelOp kernel = program.kernel;
    for (auto output : kernel.block().getOps<OutputOp>()) {
      if (section_of(output.getValue()) == Section::Tile) continue;
      bool after = after_heads(output.getValue());
      need(output.getValue(), after);
      list(after).push_back({Kind::Store, Map::Row, output, output.getValue(), -1, ""});
    }
  }
  std::vector<Statement> heads, after;
  std::vector<SumOp> sums;       // parameter sums read
  std::vector<SumOp> head_sums;  // summed in the loop

 private:
  bool over_heads(mlir::Operation* op) const { return mlir::isa<SumOp>(op) && reduces(op, AxisRole::Head); }
  bool parameter_sum(mlir::Operation* op) const {
    for (const ParameterSum& sum : program_.parameter_sums)
      if (sum.op == op) return true;
    return false;
  }
  bool after_heads(mlir::Value value) const {
    mlir::Operation* op = value.getDefiningOp();
    if (parameter_sum(op)) return false;
    if (over_heads(op)) return true;
    return llvm::any_of(op->getOperands(), [&](mlir::Value operand) { return after_heads(operand); });
  }
  std::vector<Statement>& list(bool is_after) { return is_after ? after : heads; }

  void need(mlir::Value value, bool is_after) {
    mlir::Operation* op = value.getDefiningOp();
    if (!done_.insert({value.getAsOpaquePointer(), int(is_after)}).second) return;
    if (mlir::isa<ConstantOp, IndexOp>(op)) return;
    if (parameter_sum(op)) {
      if (is_after) throw KdagenBug("emit: a sum of one head is used after the sum over heads");
      sums.push_back(mlir::cast<SumOp>(op));
    } else if (mlir::isa<InputOp>(op)) {
      list(is_after).push_back({Kind::Load, Map::Row, op, value, -1, ""});
    } else if (over_heads(op)) {
      need(op->getOperand(0), false);
      head_sums.push_back(mlir::cast<SumOp>(op));
    } else if (reduces(op, AxisRole::Feature)) {
      for (mlir::Value operand : register_operands(op)) need(operand, is_after);
      list(is_after).push_back({Kind::RowReduce, Map::Row, op, value, -1, ""});
    } else if (is_pointwise(op)) {
      for (mlir::Value operand : op->getOperands()) need(operand, is_after);
      list(is_after).push_back({Kind::Pointwise, Map::Row, op, value, -1, ""});
    } else {
      throw KdagenBug("emit: an op after the sums over tiles has no text");
    }
  }

  const Program& program_;
  std::set<std::pair<void*, int>> done_;
};
}  // namespace

bool has_finish(const Program& program) {
  KernelOp kernel = program.kernel;
  return llvm::any_of(kernel.block().getOps<OutputOp>(),
                      [](OutputOp output) { return section_of(output.getValue()) != Section::Tile; });
}

namespace {
/// What differs between the sums, by the block's `which`.
std::string by_sum(const std::vector<ParameterSum>& sums, llvm::function_ref<std::string(const ParameterSum&)> text) {
  std::string result = text(sums.back());
  for (size_t i = sums.size() - 1; i-- > 0;)
    if (std::string here = text(sums[i]); here != result)
      result = fmt::format("which == {} ? {} : {}", i, here, result);
  return result;
}
}  // namespace

void print_segments_kernel(Writer& out, const Program& program, runtime::Manifest& manifest) {
  if (program.parameter_sums.empty()) return;
  std::string entry = manifest.kernel + "_segments";
  bool per_tile = program.tiling.tiles_per_block < kTilesPerSegment;
  int groups = (program.tiling.width + kColumnsPerBlock - 1) / kColumnsPerBlock;
  out.line(
      "// Parameter sums, second stage: the segments (8 consecutive tiles of a head) by the balanced tree over their numbers.");
  out.open(fmt::format("KD_KERNEL(256, 0) void {}(const Arguments arguments)", entry));
  out.line("KD_SHARED(float, parts, 256);");
  out.line("const long long head = blockIdx.x % arguments.heads;");
  out.line(fmt::format(
      "const int column = static_cast<int>(blockIdx.x / arguments.heads) * {0} + static_cast<int>(threadIdx.x % {0});",
      kColumnsPerBlock));
  const std::vector<ParameterSum>& sums = program.parameter_sums;
  if (sums.size() > 1) out.line("const int which = static_cast<int>(blockIdx.y);");
  std::string width =
      by_sum(sums, [&](const ParameterSum& sum) { return std::to_string(partial_width(program, sum)); });
  out.line(fmt::format("const int width = {};", width));
  out.line(fmt::format("const float* const terms = {};",
                       by_sum(sums, [](const ParameterSum& sum) { return "arguments." + sum.name + "_partial"; })));
  out.line(fmt::format("float* const results = {};",
                       by_sum(sums, [](const ParameterSum& sum) { return "arguments." + sum.name + "_columns"; })));
  out.line(fmt::format("const float* const first_term = terms + head * arguments.{} * width + column;",
                       per_tile ? "tiles" : "segments"));
  out.open(
      "sum_segments(arguments.segments, column < width, parts, results + head * width + column, [&](long long segment)");
  if (per_tile) {
    out.line(fmt::format(
        "const long long first = segment * {0}, last = first + {0} < arguments.tiles ? first + {0} : arguments.tiles;",
        kTilesPerSegment));
    out.line("float in_order = 0.0f;");
    out.line("for (long long tile = first; tile < last; ++tile) in_order += first_term[tile * width];");
    out.line("return in_order;");
  } else {
    out.line("return first_term[segment * width];");
  }
  out.close(");");
  out.close();
  out.line(fmt::format("KD_ENTRY({}, Arguments);", entry));
  out.line();
  manifest.launches.push_back({entry,
                               "",
                               runtime::When::always,
                               {{"heads", std::to_string(groups)}, {std::to_string(sums.size())}},
                               256,
                               0,
                               1});
}

namespace {
void print_cleared_head_sums(Writer& out, const Finish& finish, const Names& names) {
  for (SumOp sum : finish.head_sums) {
    std::string name = names.of(sum.getResult(), Map::Row);
    out.line(shape_of(sum.getResult()) == Shape::Columns
                 ? fmt::format("float {}[8] = {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};", name)
                 : fmt::format("float {} = 0.0f;", name));
  }
}

/// What the stage before left of each sum, for one head.
void print_loaded_sums(Writer& out, const Finish& finish, const Program& program, const Names& names) {
  const Tiling& tiling = program.tiling;
  for (SumOp sum : finish.sums)
    for (const ParameterSum& parameter : program.parameter_sums) {
      if (parameter.op != sum) continue;
      std::string name = names.of(sum.getResult(), Map::Row),
                  from = fmt::format("arguments.{}_columns", parameter.name);
      if (parameter.partial == Shape::Columns) {
        out.line(fmt::format("float {}[8];", name));
        out.line(fmt::format("load4<true>({} + head * {} + 4 * lane, &{}[0]);", from, tiling.width, name));
        out.line(fmt::format("load4<true>({} + head * {} + {} + 4 * lane, &{}[4]);", from, tiling.width,
                             tiling.width / 2, name));
      } else {
        out.line(fmt::format("const float {} = {}[head];", name, from));
      }
    }
}

void print_added_head_sums(Writer& out, const Finish& finish, const Names& names) {
  for (SumOp sum : finish.head_sums) {
    std::string name = names.of(sum.getResult(), Map::Row), x = names.of(sum.getX(), Map::Row);
    bool columns = shape_of(sum.getResult()) == Shape::Columns;
    out.line(columns ? fmt::format("for (int i = 0; i < 8; ++i) {}[i] += {}[i];", name, x)
                     : fmt::format("{} += {};", name, x));
  }
}
}  // namespace

void print_finish_kernel(Writer& out, const Program& program, const Names& names, runtime::Manifest& manifest,
                         std::set<std::string>& helpers) {
  if (!has_finish(program)) return;
  Finish finish(program);
  std::string entry = manifest.kernel + "_finish", entry_any = entry + "_any";
  bool loop = !finish.head_sums.empty() || !finish.after.empty();
  out.line(
      "// Parameter sums, last stage: features, heads, and the adjoints of values made of parameters alone. One row of lanes.");
  out.line("template <bool aligned>");
  out.open(fmt::format("KD_FUNCTION void {}_body(const Arguments& arguments)", entry));
  out.line(fmt::format("const int lane = static_cast<int>(threadIdx.x % {});", program.tiling.lanes));
  out.line("(void)lane;");
  print_cleared_head_sums(out, finish, names);
  if (loop)
    out.open("for (long long head = 0; head < arguments.heads; ++head)");
  else
    out.line("const long long head = blockIdx.x;");
  out.line("(void)head;");
  print_loaded_sums(out, finish, program, names);
  StatementPrinter in_loop(program, names, out, Place::Finish);
  for (SumOp sum : finish.head_sums) in_loop.keep(sum.getX(), Map::Row);
  in_loop.print(finish.heads);
  print_added_head_sums(out, finish, names);
  if (loop) out.close();
  if (!finish.after.empty()) {
    out.line("const long long head = 0;");
    out.line("(void)head;");
  }
  StatementPrinter after(program, names, out, Place::Finish);
  after.print(finish.after);
  out.close();
  out.line();
  for (auto [name, aligned] : {std::pair{entry, true}, {entry_any, false}}) {
    out.line(variant_guard(aligned));
    out.line(fmt::format("KD_KERNEL(32, 0) void {}(const Arguments arguments) {{ {}_body<{}>(arguments); }}", name,
                         entry, aligned));
    out.line(fmt::format("KD_ENTRY({}, Arguments);", name));
    out.line("#endif");
  }
  helpers.insert(in_loop.helpers().begin(), in_loop.helpers().end());
  helpers.insert(after.helpers().begin(), after.helpers().end());
  manifest.launches.push_back({entry, entry_any, runtime::When::always, {{loop ? "1" : "heads"}}, 32, 0, 1});
}

}  // namespace kdagen::emit
