// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/fixed_point_scan.h"

#include <cmath>
#include <limits>

#include "codegen/ir/FixedPoint.h"
#include "codegen/rewrite/values.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

constexpr const char* mark = "kda.fixed_point";  // DenseI64ArrayAttr {fraction bits, limit}
constexpr int most_fraction_bits = 30, fewest_fraction_bits = 20;
constexpr double largest_int32 = std::numeric_limits<int32_t>::max();

struct Format {
  int fraction_bits;
  int64_t limit;  ///< of a summand, in units
};

struct Choice {
  Value summand;
  Format format;
};

/// Whether `magnitude` fits, with a unit of rounding for each of `rows` summands on either side.
bool fits(double magnitude, int fraction_bits, int64_t rows) {
  return std::ldexp(magnitude, fraction_bits) + 2.0 * double(rows) <= largest_int32;
}

std::optional<Format> format_for(double magnitude, int64_t rows) {
  if (!std::isfinite(magnitude)) return std::nullopt;
  for (int bits = most_fraction_bits; bits >= fewest_fraction_bits; --bits)
    if (fits(magnitude * double(rows), bits, rows))
      return Format{bits, int64_t(std::ceil(std::ldexp(magnitude, bits)))};
  return std::nullopt;
}

/// Scans, and sums over the rows alone.
bool is_row_sum(Operation& op) {
  if (llvm::isa<ScanOp>(op)) return true;
  auto sum = llvm::dyn_cast<SumOp>(op);
  if (!sum || sum.getOver().size() != 1) return false;
  auto axis = kernel_of(&op).axis(llvm::cast<StringAttr>(sum.getOver()[0]).getValue());
  return axis && axis.getRole() == AxisRole::Rows;
}

/// What an exponent may be made of besides sums.
bool keeps_fixed_point(Operation* op) {
  return llvm::isa<NegOp, AddOp, SubOp, BroadcastOp, LastOp, BoundaryOp, RintOp>(op);
}

/// Whether it may be larger than its operands.
bool may_leave_the_range(Operation* op) { return llvm::isa<AddOp, SubOp, RintOp>(op); }

/// Whether one of the values, or what `keeps_fixed_point` makes of them, satisfies `wanted`.
bool reach(ArrayRef<Value> values, llvm::function_ref<bool(Value)> wanted) {
  llvm::SetVector<Value> seen(values.begin(), values.end());
  for (size_t i = 0; i < seen.size(); ++i) {
    if (wanted(seen[i])) return true;
    for (Operation* user : seen[i].getUsers())
      if (keeps_fixed_point(user)) seen.insert(user->getResult(0));
  }
  return false;
}

bool is_exponent(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation* user) { return llvm::isa<Exp2Op>(user); });
}

SmallVector<Choice> choose(KernelOp kernel, const RewriteOptions& options) {
  if (options.scan == ScanKind::floating || !options.magnitude) return {};
  llvm::MapVector<Value, SmallVector<Value>> sums;  // by summand
  CotangentDependence cotangents(kernel.block());
  for (Operation& op : kernel.block())
    if (is_row_sum(op) && !cotangents.of(op.getOperand(0))) sums[op.getOperand(0)].push_back(op.getResult(0));
  SmallVector<Choice> choices;
  for (auto& [summand, results] : sums) {
    if (reach(results, [&](Value value) { return options.saves(value); })) continue;
    if (options.scan == ScanKind::automatic && !reach(results, is_exponent)) continue;
    if (auto format = format_for(options.magnitude(summand), kernel.chunk())) choices.push_back({summand, *format});
  }
  return choices;
}

void set_mark(Operation& op, const Format& format) {
  op.setAttr(mark, DenseI64ArrayAttr::get(op.getContext(), {format.fraction_bits, format.limit}));
}

class Lowering {
 public:
  Lowering(KernelOp kernel, const RewriteOptions& options)
      : kernel_(kernel), options_(options), rewriter_(kernel.getContext()) {}

  void run() {
    measure();
    for (Operation& op : llvm::make_early_inc_range(kernel_.block())) visit(&op);
  }

 private:
  /// Ranges of the sums and differences to come, while the program still stands.
  void measure() {
    llvm::DenseSet<Value> touched;
    for (Operation& op : kernel_.block()) {
      if (op.getNumResults() != 1) continue;
      bool over =
          keeps_fixed_point(&op) && llvm::any_of(op.getOperands(), [&](Value x) { return touched.contains(x); });
      if (over || op.hasAttr(mark)) touched.insert(op.getResult(0));
      if (over && may_leave_the_range(&op)) magnitude_[&op] = options_.magnitude(op.getResult(0));
    }
  }

  void visit(Operation* op) {
    rewriter_.setInsertionPoint(op);
    if (auto format = op->getAttrOfType<DenseI64ArrayAttr>(mark))
      return replace_by(op, {to_fixed(op->getOperand(0), {int(format[0]), format[1]})});
    if (auto exponential = llvm::dyn_cast<Exp2Op>(op)) {
      if (Value fixed = fixed_.lookup(exponential.getX())) op->setOperand(0, fixed);
      return;
    }
    if (!keeps_fixed_point(op)) return;
    FixedType type;
    for (Value operand : op->getOperands())
      if (Value fixed = fixed_.lookup(operand)) type = fixed_type(fixed);
    if (!type) return;
    if (may_leave_the_range(op) && !fits(magnitude_.lookup(op), int(type.getFractionBits()), kernel_.chunk())) return;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) operands.push_back(as_fixed(operand, type));
    if (llvm::all_of(operands, [](Value operand) { return bool(operand); })) replace_by(op, operands);
  }

  /// The operand in this format; null if it has another or none.
  Value as_fixed(Value operand, FixedType type) {
    if (Value fixed = fixed_.lookup(operand)) return fixed_type(fixed) == type ? fixed : Value();
    auto scalar = constant_scalar(operand);
    if (!scalar) return {};
    double units = std::ldexp(scalar->value(), int(type.getFractionBits()));
    if (units != std::nearbyint(units) || std::abs(units) > largest_int32) return {};
    return rewriter_.create<ConstantOp>(unnamed(operand.getLoc()), ValueType::get(rewriter_.getContext(), {}, type),
                                        rewriter_.getF64FloatAttr(scalar->value()), rewriter_.getArrayAttr({}));
  }

  Value to_fixed(Value x, const Format& format) {
    Value& known = inputs_[x];
    if (!known) {
      auto type = FixedType::get(rewriter_.getContext(), unsigned(format.fraction_bits));
      known = rewriter_.create<ToFixedOp>(unnamed(x.getLoc()), with_element(x, type), x, format.limit);
      if (from_small_side(x, format)) known.getDefiningOp()->setAttr(small_side_attribute, rewriter_.getUnitAttr());
    }
    return known;
  }

  /// Not if the factor is no number of the format: then the sigmoid is proven to be on its small side, and as good as a
  /// float. Not if the summand or its sigmoid is saved: the backward reads them as floats, and has to get the same
  /// integers.
  bool from_small_side(Value x, const Format& format) const {
    const auto scaled = scaled_sigmoid(x);
    if (!scaled || std::fabs(std::ldexp(scaled->scalar.value(), format.fraction_bits)) > largest_int32) return false;
    SmallVector<Value> parts = {x};
    llvm::append_range(parts, x.getDefiningOp()->getOperands());
    return llvm::none_of(parts, [&](Value part) { return options_.saves(part); });
  }

  static ValueType with_element(Value value, FixedType type) {
    return ValueType::get(value.getContext(), type_of(value).getAxes(), type);
  }

  /// The same op on fixed-point operands, keeping the user's name; a float copy for whoever reads floats.
  void replace_by(Operation* op, SmallVector<Value> operands) {
    Operation* clone = rewriter_.clone(*op);
    clone->removeAttr(mark);
    clone->setOperands(operands);
    Value fixed = clone->getResult(0);
    fixed.setType(with_element(fixed, fixed_type(operands.front())));
    Value floating = rewriter_.create<FromFixedOp>(unnamed(op->getLoc()), op->getResult(0).getType(), fixed);
    fixed_[floating] = fixed;
    rewriter_.replaceOp(op, floating);
  }

  KernelOp kernel_;
  const RewriteOptions& options_;
  IRRewriter rewriter_;
  llvm::DenseMap<Operation*, double> magnitude_;
  llvm::DenseMap<Value, Value> inputs_;  // fixed-point copies of summands
  llvm::DenseMap<Value, Value> fixed_;   // behind each kda.from_fixed
};

}  // namespace

void choose_fixed_point_scans(KernelOp kernel, const RewriteOptions& options, RewriteReport& report) {
  KernelOp forward = kernel.getDirection() == "bwd" && options.forward ? options.forward : kernel;
  SmallVector<Choice> choices = choose(forward, options);
  auto mark_sums = [&](KernelOp marked) {
    CotangentDependence cotangents(marked.block());
    for (Operation& op : marked.block()) {
      if (!is_row_sum(op) || cotangents.of(op.getOperand(0))) continue;
      for (const Choice& choice : choices) {
        bool same =
            marked == forward ? choice.summand == op.getOperand(0) : same_value(choice.summand, op.getOperand(0));
        if (!same) continue;
        set_mark(op, choice.format);
        if (marked == kernel) report.fired("fixed-point-scan", op.getLoc());
        break;
      }
    }
  };
  if (forward != kernel) mark_sums(forward);
  mark_sums(kernel);
}

void lower_fixed_point_scans(KernelOp kernel, const RewriteOptions& options) { Lowering(kernel, options).run(); }

std::vector<RowSum> sums_over_rows(KernelOp kernel) {
  std::vector<RowSum> sums;
  for (Operation& op : kernel.block()) {
    if (!is_row_sum(op)) continue;
    FixedType type = fixed_type(op.getResult(0));
    sums.push_back({op.getResult(0), type ? int(type.getFractionBits()) : -1});
  }
  return sums;
}

}  // namespace kdagen::kda
