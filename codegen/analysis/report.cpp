// SPDX-License-Identifier: Apache-2.0
// The range report and the refusal.
#include <fmt/format.h>
#include "llvm/ADT/SmallPtrSet.h"

#include "codegen/analysis/anchors.h"
#include "codegen/analysis/proofs.h"
#include "codegen/explain/formulas.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::KernelOp;

constexpr double largest_fp16 = 65504;

std::string end_text(double end) {
  return end == Interval::infinity ? "inf" : end == -Interval::infinity ? "-inf" : fmt::format("{:.6g}", end);
}
std::string range_of(Interval range) { return fmt::format("[{}, {}]", end_text(range.lo), end_text(range.hi)); }

RangeEntry entry(Value value, Interval range, const std::string& unit) {
  return {formula(value),
          kda::spec_line(value.getLoc()),
          kda::spec_line_number(value.getLoc()),
          range,
          unit,
          "proven",
          "",
          ""};
}

/// "g_c = cumsum_t(g), g in [-7.21, 0]": where a named argument's range comes from.
std::string origin(Value argument, const Ranges& ranges) {
  while (true) {
    Operation* op = argument.getDefiningOp();
    if (llvm::isa<kda::NegOp, kda::BroadcastOp, kda::DetachOp>(op))
      argument = op->getOperand(0);
    else if (llvm::isa<kda::AddOp, kda::SubOp>(op) && !kda::user_name(argument))
      argument = op->getOperand(op->getNumOperands() - 1);
    else
      break;
  }
  Operation* op = argument.getDefiningOp();
  if (op->getNumOperands() == 0) return "";
  std::string text = fmt::format("\n  {} = {}", formula(argument), definition(argument));
  if (llvm::isa<kda::ScanOp, kda::SumOp>(op)) {
    text += fmt::format(", {} in {}", formula(op->getOperand(0)), range_of(ranges.of(op->getOperand(0))));
    if (kda::has_role(op->getOperand(0), kda::AxisRole::Rows))
      text += fmt::format(", {} rows", kda::kernel_of(op).chunk());
  }
  return text + "   [" + kda::spec_line(op->getLoc()) + "]";
}

RangeEntry exponent_entry(const Obligation& obligation, const Ranges& ranges, const ProofOptions& options) {
  Interval range = obligation.range(ranges);
  RangeEntry result = entry(obligation.argument(), range, "log2");
  if (obligation.argument().getDefiningOp()->hasAttr(anchored_attribute)) result.verdict = "anchored";
  if (passes(range, options)) {
    if (range.hi > 0 && range.hi >= normal_exponent_limit)
      result.advice = "no headroom: within 2 of overflow";
    else if (range.lo < -normal_exponent_limit)
      result.advice = "the result may be subnormal or 0";
    return result;
  }
  result.verdict = "refused";
  result.advice = advice(obligation, options);
  double limit = std::min(exponent_limit, headroom_limit(options));
  bool overflow = limit == exponent_limit || !(range.hi < exponent_limit);
  std::string function = llvm::isa<kda::ExpOp>(obligation.exponential) ? "exp" : "2^";
  result.reason =
      fmt::format("{}({}) {}: the exponent {} (log2 units), limit {}{}\n  any one of these passes: {}", function,
                  formula(obligation.argument()), overflow ? "may overflow" : "lacks headroom for the gradients",
                  range.hi == Interval::infinity ? "has no upper bound" : fmt::format("reaches {:.5g}", range.hi),
                  overflow ? exponent_limit : limit, origin(obligation.argument(), ranges), result.advice);
  return result;
}

/// Whether a factor of the product is an exponential that alone can pass the limit.
bool large_exponential_factor(Value value, const Ranges& ranges) {
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation* op = next.getDefiningOp();
    if (llvm::isa<kda::Exp2Op, kda::ExpOp>(op) && ranges.of(next).hi > largest_fp16) return true;
    if (llvm::isa<kda::MulOp, kda::NegOp, kda::BroadcastOp, kda::RoundOp>(op))
      for (Value operand : op->getOperands()) pending.push_back(operand);
  }
  return false;
}

/// A bound above fp16's largest number, or an exponential factor above it. A value that is unbounded only because the
/// user's data are is the user's business, as with any cast.
std::optional<RangeEntry> narrow_output(kda::OutputOp output, const Ranges& ranges) {
  // A gradient is as large as the cotangents that arrive: nothing bounds it, and its storage is the caller's choice.
  bool gradient = output.getRole() == "gradient" || output.getRole() == "param_gradient";
  if (!output.getStorage().isF16() || gradient) return std::nullopt;
  Interval range = ranges.of(output.getValue());
  RangeEntry result = entry(output.getValue(), range, "1");
  result.name = output.getTensor().str();
  result.file_line = kda::spec_line(output.getLoc());
  result.line = kda::spec_line_number(output.getLoc());
  bool large = range.bounded() ? range.magnitude() > largest_fp16 : large_exponential_factor(output.getValue(), ranges);
  if (!large) return result;
  result.verdict = "refused";
  result.advice =
      fmt::format("out.{}=bf16  |  out.{}=f32  |  an output form without a growing factor", result.name, result.name);
  result.reason = fmt::format(
      "output '{}' is stored as fp16, whose largest number is 65504, but lies in {}\n  any one of these passes: {}",
      result.name, range_of(range), result.advice);
  return result;
}

}  // namespace

std::vector<RangeEntry> range_report(KernelOp kernel, const ProofOptions& options) {
  Ranges ranges = analyse(kernel);
  std::vector<RangeEntry> entries;
  llvm::DenseSet<Value> exponents;
  for (const Obligation& obligation : obligations(kernel)) {
    entries.push_back(exponent_entry(obligation, ranges, options));
    exponents.insert(obligation.argument());
  }
  for (auto output : kernel.block().getOps<kda::OutputOp>())
    if (auto result = narrow_output(output, ranges)) entries.push_back(*result);
  for (Operation& op : kernel.block()) {
    if (op.getNumResults() != 1 || llvm::isa<kda::ConstantOp, kda::InputOp>(op)) continue;
    Value value = op.getResult(0);
    if (kda::user_name(value) && ranges.of(value).bounded() && !exponents.contains(value))
      entries.push_back(entry(value, ranges.of(value), "1"));
  }
  return entries;
}

std::string range_text(const std::vector<RangeEntry>& entries) {
  size_t widest = 4;
  for (const auto& entry : entries) widest = std::max(widest, entry.name.size());
  std::string text = fmt::format("{:<{}}  line  {:<26}  verdict   note\n", "name", widest, "range");
  for (const auto& entry : entries) {
    std::string range = range_of(entry.range) + (entry.unit == "log2" ? " log2" : "");
    text += fmt::format("{:<{}}  {:>4}  {:<26}  {:<8}  {}", entry.name, widest, entry.line, range, entry.verdict,
                        entry.advice);
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  return text;
}

void require_proven_ranges(KernelOp kernel) {
  for (const RangeEntry& entry : range_report(kernel))
    if (entry.verdict == "refused") throw SpecError(entry.file_line + ": error: " + entry.reason);
}

}  // namespace kdagen
