// SPDX-License-Identifier: Apache-2.0
#include "codegen/analysis/proofs.h"

#include <numbers>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/analysis/anchors.h"
#include "codegen/analysis/bounded_forms.h"
#include "codegen/explain/formulas.h"
#include "codegen/ir/Scalar.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen {
namespace {
using kda::KernelOp;

/// Everything the value is computed from, itself included.
llvm::DenseSet<Operation*> ancestors(Value value) {
  llvm::DenseSet<Operation*> seen;
  SmallVector<Operation*> pending = {value.getDefiningOp()};
  while (!pending.empty()) {
    Operation* op = pending.pop_back_val();
    if (!seen.insert(op).second) continue;
    for (Value operand : op->getOperands()) pending.push_back(operand.getDefiningOp());
  }
  return seen;
}

/// What is advised leaves room for the gradients too.
bool passes_well(Interval range, const ProofOptions& options) {
  return passes(range, options) && range.hi <= normal_exponent_limit;
}
/// An anchored exponent uses both sides of 1: its cotangents are as small as it is large, and must be normal numbers
/// too.
bool passes_with(const Obligation& obligation, const ProofOptions& options, Assumptions assumptions) {
  constexpr double most_of_an_anchored = 120;
  const Interval range = obligation.range(Ranges(std::move(assumptions)));
  const bool anchored = obligation.argument().getDefiningOp()->hasAttr(anchored_attribute);
  return passes_well(range, options) && (!anchored || range.magnitude() <= most_of_an_anchored);
}

/// Whether rows that only decay are summed: then the sum of the rows behind a row cannot grow.
bool sums_decays(const llvm::DenseSet<Operation*>& inputs) {
  const Ranges ranges;
  return llvm::any_of(
      inputs, [&](Operation* op) { return llvm::isa<kda::ScanOp>(op) && ranges.of(op->getOperand(0)).hi <= 0; });
}

/// "chunk=16 (limit 17)": the largest chunk that passes, as a multiple of 8 and as it is. With anchors by sub-chunk it
/// has to be longer than one.
std::string chunk_advice(const Obligation& obligation, const ProofOptions& options,
                         const llvm::DenseSet<Operation*>& inputs) {
  const bool subchunks = llvm::any_of(inputs, [](Operation* op) { return llvm::isa<kda::BoundaryOp>(op); });
  int64_t limit = kda::kernel_of(obligation.exponential).chunk();
  while (limit > 0 && !passes_with(obligation, options, {limit, {}})) --limit;
  int64_t chunk = limit / 8 * 8;
  return chunk > (subchunks ? subchunk_rows : 0) ? fmt::format("chunk={} (limit {})", chunk, limit) : "";
}

/// Whether the exponent is a running sum that is small enough inside a sub-chunk.
bool anchors_by_subchunk_pass(const Obligation& obligation, const ProofOptions& options) {
  Value argument = obligation.argument();
  if (!llvm::isa<kda::Exp2Op>(obligation.exponential) || argument.getDefiningOp()->hasAttr(anchored_attribute))
    return false;
  if (kda::kernel_of(obligation.exponential).chunk() <= subchunk_rows) return false;
  const Ranges ranges;
  const Interval inside = range_in_subchunk(argument, subchunk_rows, [&](Value value) { return ranges.of(value); });
  const double half = (inside.hi - inside.lo) / 2;
  return inside.bounded() && passes_well({-half - 1, half + 1}, options);
}

/// "lower_bound >= -1.386": the farthest value from 0, no farther than the present one, with which the proof holds.
std::string symbol_advice(const Obligation& obligation, const ProofOptions& options, const std::string& name,
                          double value) {
  auto holds = [&](double fraction) {
    return passes_with(obligation, options, {std::nullopt, {{name, value * fraction}}});
  };
  double lowest = 1e-3, highest = 1;
  if (value == 0 || !holds(lowest)) return "";
  for (int step = 0; step < 40; ++step) {
    double middle = (lowest + highest) / 2;
    (holds(middle) ? lowest : highest) = middle;
  }
  // three decimals, towards 0
  double bound = std::floor(std::abs(value) * lowest * 1000) / 1000;
  return bound == 0 ? "" : value < 0 ? fmt::format("{} >= {}", name, -bound) : fmt::format("{} <= {}", name, bound);
}

std::vector<std::string> symbol_advice(const Obligation& obligation, const ProofOptions& options,
                                       const llvm::DenseSet<Operation*>& inputs) {
  std::map<std::string, double> symbols;
  for (Operation* op : inputs)
    if (auto constant = llvm::dyn_cast<kda::ConstantOp>(op))
      for (const auto& [name, symbol] : kda::Scalar::of(constant).symbols)
        if (name != "ln2") symbols[name] = symbol.value;
  std::vector<std::string> result;
  for (const auto& [name, value] : symbols)
    if (auto text = symbol_advice(obligation, options, name, value); !text.empty()) result.push_back(text);
  return result;
}

/// While it lives, an attribute of an op is another.
class Supposed {
 public:
  Supposed(Operation* op, StringRef name, Attribute value) : op_(op), name_(name), before_(op->getAttr(name)) {
    op->setAttr(name, value);
  }
  ~Supposed() { before_ ? op_->setAttr(name_, before_) : void(op_->removeAttr(name_)); }
  Supposed(const Supposed&) = delete;

 private:
  Operation* op_;
  StringRef name_;
  Attribute before_;
};

/// The farthest end from `near`, no farther than `far`, with which `holds`; three decimals, towards `near`. Nothing if
/// none does.
std::optional<double> farthest_end(double near, double far, llvm::function_ref<bool(double)> holds) {
  if (!std::isfinite(near) || !std::isfinite(far) || near == far) return std::nullopt;
  auto at = [&](double fraction) { return near + (far - near) * fraction; };
  double lowest = 1e-3, highest = 1;
  if (!holds(at(lowest))) return std::nullopt;
  for (int step = 0; step < 40; ++step) {
    double middle = (lowest + highest) / 2;
    (holds(at(middle)) ? lowest : highest) = middle;
  }
  const double end = near + std::trunc((at(lowest) - near) * 1000) / 1000;
  return end == near || !holds(end) ? std::nullopt : std::optional(end);
}

/// "bounds(-2.706, 0) on gate": declared bounds of an input, one end moved towards the other.
std::vector<std::string> bounds_advice(const Obligation& obligation, const ProofOptions& options,
                                       const llvm::DenseSet<Operation*>& inputs) {
  std::vector<std::string> result;
  for (auto input : kda::kernel_of(obligation.exponential).block().getOps<kda::InputOp>()) {
    if (!inputs.contains(input) || !input.getLower() || !input.getUpper() || input.getRole() == "cotangent") continue;
    const double lower = input.getLower()->convertToDouble(), upper = input.getUpper()->convertToDouble();
    auto holds_with = [&](StringRef end) {
      return [&, end](double value) {
        const Supposed supposed(input, end, FloatAttr::get(Float64Type::get(input.getContext()), value));
        return passes_with(obligation, options, {});
      };
    };
    if (auto end = farthest_end(upper, lower, holds_with("lower")))
      result.push_back(fmt::format("bounds({}, {}) on {}", *end, upper, input.getTensor().str()));
    else if (auto other = farthest_end(lower, upper, holds_with("upper")))
      result.push_back(fmt::format("bounds({}, {}) on {}", lower, *other, input.getTensor().str()));
  }
  return result;
}

/// "g within [-7.875, 0] a row (log2 units)": what is summed over the rows, where no option and no declared bound
/// limits it.
std::vector<std::string> summand_advice(const Obligation& obligation, const ProofOptions& options,
                                        const llvm::DenseSet<Operation*>& inputs) {
  std::vector<std::string> result;
  for (auto scan : kda::kernel_of(obligation.exponential).block().getOps<kda::ScanOp>()) {
    Operation* summand = scan.getX().getDefiningOp();
    if (!inputs.contains(scan) || llvm::isa<kda::InputOp>(summand)) continue;
    const Interval range = Ranges().of(scan.getX());
    auto holds_in = [&](double lower, double upper) {
      const Supposed supposed(summand, proven_range_attribute,
                              DenseF64ArrayAttr::get(summand->getContext(), {lower, upper}));
      return passes_with(obligation, options, {});
    };
    auto lower = farthest_end(range.hi, range.lo, [&](double end) { return holds_in(end, range.hi); });
    auto upper =
        lower ? std::nullopt : farthest_end(range.lo, range.hi, [&](double end) { return holds_in(range.lo, end); });
    if (!lower && !upper) continue;
    const std::string unit = llvm::isa<kda::Exp2Op>(obligation.exponential) ? "log2 units" : "nats";
    result.push_back(fmt::format("clamp({}, {:.6g}, {:.6g}), or a factor that keeps it there ({} a row)",
                                 formula(scan.getX()), lower.value_or(range.lo), upper.value_or(range.hi), unit));
    break;
  }
  return result;
}

/// Inputs and params without bounds that the argument depends on, in program order.
std::vector<std::string> unbounded_inputs(const Obligation& obligation, const llvm::DenseSet<Operation*>& inputs) {
  std::vector<std::string> names;
  for (auto input : kda::kernel_of(obligation.exponential).block().getOps<kda::InputOp>())
    if (inputs.contains(input) && !Ranges().of(input.getResult()).bounded()) names.push_back(input.getTensor().str());
  return names;
}

}  // namespace

double Obligation::units() const { return llvm::isa<kda::ExpOp>(exponential) ? std::numbers::log2e : 1.0; }
Interval Obligation::range(const Ranges& ranges) const { return ranges.of(argument()) * Interval::point(units()); }

std::vector<Obligation> obligations(KernelOp kernel) {
  std::vector<Obligation> result;
  std::set<std::pair<void*, double>> seen;
  for (Operation& op : kernel.block()) {
    if (!llvm::isa<kda::ExpOp, kda::Exp2Op>(op) || kda::section_of(op.getResult(0)) != kda::Section::Tile) continue;
    auto input = op.getOperand(0).getDefiningOp<kda::InputOp>();
    if (input && input.getStorage().isInteger(8)) continue;
    Obligation obligation{&op};
    if (seen.insert({obligation.argument().getAsOpaquePointer(), obligation.units()}).second)
      result.push_back(obligation);
  }
  return result;
}

double headroom_limit(const ProofOptions& options) {
  if (!options.do_scale && !options.ftz) return Interval::infinity;
  double room = (options.ftz ? 112 : 132) + std::log2(options.do_scale.value_or(1.0));
  return std::min(normal_exponent_limit, room);
}

// The rule of the headroom counts growing factors (2^x with x > 0 somewhere): a decay alone may vanish.
bool passes(Interval range, const ProofOptions& options) {
  constexpr double margin = 1 + 0x1p-16;
  if (!(range.hi * margin < exponent_limit)) return false;
  return range.hi <= 0 || range.hi <= headroom_limit(options);
}

std::string advice(const Obligation& obligation, const ProofOptions& options) {
  Interval range = obligation.range(Ranges());
  auto inputs = ancestors(obligation.argument());
  std::vector<std::string> ways;
  if (range.hi < Interval::infinity) {
    if (auto text = chunk_advice(obligation, options, inputs); !text.empty()) ways.push_back(text);
    std::vector<std::string> bounds = symbol_advice(obligation, options, inputs);
    llvm::append_range(bounds, bounds_advice(obligation, options, inputs));
    if (bounds.empty()) bounds = summand_advice(obligation, options, inputs);
    llvm::append_range(ways, bounds);
    double half = (range.hi - range.lo) / 2;
    if (range.bounded() && llvm::isa<kda::Exp2Op>(obligation.exponential) && passes_well({-half, half + 1}, options))
      ways.push_back("a static anchor on the output (stored as value*2^n)");
    else if (anchors_by_subchunk_pass(obligation, options))
      ways.push_back(
          fmt::format("anchors by sub-chunk on the output (stored as value*2^n, n for every {} rows)", subchunk_rows));
  } else if (auto names = unbounded_inputs(obligation, inputs); !names.empty()) {
    ways.push_back(fmt::format("bounds(lower, upper) on {}", fmt::join(names, ", ")));
    ways.push_back("a bounded gate (a constant times sigmoid)");
  }
  ways.push_back(std::string("an output form without a growing factor: the exponent itself, the factors apart") +
                 (sums_decays(inputs) ? ", or 2^(total - cumsum)" : ""));
  return fmt::format("{}", fmt::join(ways, "  |  "));
}

}  // namespace kdagen
