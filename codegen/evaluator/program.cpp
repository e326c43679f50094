// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <kdagen/error.h>

#include "codegen/ir/FixedPoint.h"
#include "codegen/ir/Scalar.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

namespace kdagen::evaluator {
namespace {

using kda::Section;

[[noreturn]] void refuse(mlir::Operation* op, const std::string& why) {
  std::string line = kda::spec_line(op->getLoc());
  throw SpecError(
      fmt::format("{}: error: {} {}", line.empty() ? "kernel" : line, op->getName().getStringRef().str(), why));
}

Kind kind_of(mlir::Operation* op) {
  auto kind = llvm::StringSwitch<int>(op->getName().stripDialect())
                  .Case("input", int(Kind::input))
                  .Case("constant", int(Kind::constant))
                  .Case("neg", int(Kind::neg))
                  .Case("exp", int(Kind::exp))
                  .Case("exp2", int(Kind::exp2))
                  .Case("log", int(Kind::log))
                  .Case("log1p", int(Kind::log1p))
                  .Case("sqrt", int(Kind::sqrt))
                  .Case("rsqrt", int(Kind::rsqrt))
                  .Case("rcp", int(Kind::rcp))
                  .Case("sigmoid", int(Kind::sigmoid))
                  .Case("sigmoid_grad", int(Kind::sigmoid_grad))
                  .Case("softplus", int(Kind::softplus))
                  .Case("tanh", int(Kind::tanh))
                  .Case("relu", int(Kind::relu))
                  .Case("abs", int(Kind::abs))
                  .Case("isnan", int(Kind::isnan))
                  .Case("rint", int(Kind::rint))
                  .Case("detach", int(Kind::detach))
                  .Case("add", int(Kind::add))
                  .Case("sub", int(Kind::sub))
                  .Case("mul", int(Kind::mul))
                  .Case("div", int(Kind::div))
                  .Case("pow", int(Kind::pow))
                  .Case("min", int(Kind::min))
                  .Case("max", int(Kind::max))
                  .Case("less", int(Kind::less))
                  .Case("less_equal", int(Kind::less_equal))
                  .Case("equal", int(Kind::equal))
                  .Case("fma", int(Kind::fma))
                  .Case("select", int(Kind::select))
                  .Case("clamp", int(Kind::clamp))
                  .Case("round", int(Kind::round))
                  .Case("sum", int(Kind::sum))
                  .Case("max_reduce", int(Kind::max_reduce))
                  .Case("inverse_norm", int(Kind::inverse_norm))
                  .Case("scan", int(Kind::scan))
                  .Case("last", int(Kind::last))
                  .Case("at_last", int(Kind::at_last))
                  .Case("shift", int(Kind::shift))
                  .Case("boundary", int(Kind::boundary))
                  .Case("index", int(Kind::row_index))
                  .Case("broadcast", int(Kind::broadcast))
                  .Case("to_fixed", int(Kind::to_fixed))
                  .Case("from_fixed", int(Kind::from_fixed))
                  .Default(-1);
  if (kind < 0) refuse(op, "is an op that the evaluator does not know");
  return Kind(kind);
}

/// The same on fixed-point values.
Kind fixed_kind(Kind kind, mlir::Operation* op) {
  switch (kind) {
    case Kind::constant:
      return Kind::fixed_constant;
    case Kind::neg:
      return Kind::fixed_neg;
    case Kind::rint:
      return Kind::fixed_rint;
    case Kind::add:
      return Kind::fixed_add;
    case Kind::sub:
      return Kind::fixed_sub;
    case Kind::exp2:
      return Kind::fixed_exp2;
    case Kind::scan:
      return Kind::fixed_scan;
    case Kind::sum:
      return Kind::fixed_sum;
    case Kind::to_fixed:
    case Kind::to_fixed_small_side:
    case Kind::from_fixed:
    case Kind::last:
    case Kind::boundary:
    case Kind::broadcast:
    case Kind::select:
      return kind;
    default:
      refuse(op, "takes no fixed-point values");
  }
}

class ProgramBuilder {
 public:
  ProgramBuilder(kda::KernelOp kernel, const std::vector<std::string>& taps)
      : kernel_(kernel), taps_(taps.begin(), taps.end()) {}

  Program build() {
    program_.chunk = kernel_.chunk();
    program_.dim = kernel_.dim();
    if (program_.chunk < 1 || program_.dim < 1)
      throw KdagenBug("a kernel reached the evaluator with an unknown chunk or dim");
    for (auto output : kernel_.block().getOps<kda::OutputOp>()) taps_.erase(output.getTensor().str());
    for (mlir::Operation& op : kernel_.block()) {
      if (auto output = llvm::dyn_cast<kda::OutputOp>(op))
        add_output(output);
      else
        add_step(&op);
    }
    if (!taps_.empty()) throw UsageError(fmt::format("no inner value is called '{}'", *taps_.begin()));
    assign_slots();
    return std::move(program_);
  }

 private:
  struct Location {
    Axes axes;
    bool chunk = false;  ///< varies from tile to tile
  };

  Location locate(llvm::ArrayRef<mlir::StringAttr> names, mlir::Operation* op) {
    Location location;
    for (mlir::StringAttr name : names) {
      kda::AxisAttr axis = kernel_.axis(name.getValue());
      if (!axis) refuse(op, fmt::format("names the axis {}, which the kernel lacks", name.getValue().str()));
      switch (axis.getRole()) {
        case kda::AxisRole::Rows:
          location.axes.rows = location.chunk = true;
          break;
        case kda::AxisRole::Head:
          location.axes.heads = true;
          break;
        case kda::AxisRole::Feature:
          location.axes.columns = true;
          break;
        case kda::AxisRole::Batch:
        case kda::AxisRole::Chunk:
          location.chunk = true;
          break;
        case kda::AxisRole::Group:
          refuse(op, "has a group axis, which the evaluator does not know yet");
      }
    }
    return location;
  }
  Tensor tensor_of(const std::string& name, const Location& location, mlir::Type storage) {
    Place place = location.axes.rows ? Place::token : location.chunk ? Place::chunk : Place::param;
    Tensor tensor;
    tensor.name = name;
    tensor.place = place;
    tensor.axes = location.axes;
    tensor.storage = storage_of(storage);
    return tensor;
  }

  void add_output(kda::OutputOp op) {
    llvm::SmallVector<mlir::StringAttr> names;
    for (mlir::Attribute axis : op.getAxes()) names.push_back(llvm::cast<mlir::StringAttr>(axis));
    Tensor tensor = tensor_of(op.getTensor().str(), locate(names, op), op.getStorage());
    tensor.every = int64_t(op.getEvery());
    if (tensor.every > 0) tensor.place = Place::chunk;
    add_write(numbers_.lookup(op.getValue()), std::move(tensor), false, op);
  }
  void add_write(int value, Tensor tensor, bool is_tap, mlir::Operation* op) {
    if (program_.values[value].section == Section::Epilogue
            ? tensor.place != Place::param
            : program_.values[value].section == Section::Tile && tensor.place == Place::param)
      refuse(op,
             fmt::format("writes '{}', whose axes do not fit the section in which its value is known", tensor.name));
    program_.writes.push_back({value, int(program_.outputs.size()), is_tap});
    program_.outputs.push_back(std::move(tensor));
  }

  void add_step(mlir::Operation* op) {
    if (op->getNumResults() != 1) refuse(op, "has no single result");
    Step step{};
    step.kind = kind_of(op);
    mlir::Value result = op->getResult(0);
    Location location = locate(kda::type_of(result).getAxes(), op);
    step.result = numbers_[result] = int(program_.values.size());
    for (unsigned i = 0; i < op->getNumOperands(); ++i) step.operands[i] = numbers_.lookup(op->getOperand(i));
    fill(step, op);
    if (has_held_value(step.kind) || has_held_branch(step.kind)) step.index = program_.held++;
    use_fixed_point(step, op);
    step.section = section_of(step, location, op);
    kda::FixedType fixed = kda::fixed_type(result);
    program_.values.push_back({location.axes, step.section, fixed ? int(fixed.getFractionBits()) : -1});
    program_.steps.push_back(step);
    if (auto name = kda::user_name(result); name && taps_.erase(*name))
      add_write(step.result, tensor_of(*name, location, mlir::Float64Type::get(op->getContext())), true, op);
  }

  void use_fixed_point(Step& step, mlir::Operation* op) {
    kda::FixedType type = kda::fixed_type(op->getResult(0));
    for (mlir::Value operand : op->getOperands())
      if (!type) type = kda::fixed_type(operand);
    if (!type) return;
    step.fraction_bits = int(type.getFractionBits());
    step.kind = fixed_kind(step.kind, op);
  }

  /// As kda::section_of, but a value without tile axes that is derived from a tile's own rows stays in the tile.
  Section section_of(const Step& step, const Location& location, mlir::Operation* op) {
    Section section = location.chunk ? Section::Tile : Section::Prologue;
    for (int operand : step.operands) {
      if (operand < 0) continue;
      Section from = program_.values[operand].section;
      if (from == Section::Tile && section == Section::Prologue) section = Section::Tile;
      if (from == Section::Epilogue) {
        if (location.chunk) refuse(op, "needs in each tile what is known only after all tiles");
        section = Section::Epilogue;
      }
    }
    return step.kind == Kind::tile_sum ? Section::Epilogue : section;
  }

  void fill(Step& step, mlir::Operation* op) {
    if (auto input = llvm::dyn_cast<kda::InputOp>(op)) {
      step.index = int(program_.inputs.size());
      Location location = locate(kda::type_of(input.getResult()).getAxes(), op);
      program_.inputs.push_back(tensor_of(input.getTensor().str(), location, input.getStorage()));
      program_.inputs.back().optional = input.getOptional();
      if (auto absent = input.getAbsent()) program_.inputs.back().absent = absent->convertToDouble();
    } else if (auto constant = llvm::dyn_cast<kda::ConstantOp>(op)) {
      step.number = kda::Scalar::of(constant).value();
    } else if (auto index = llvm::dyn_cast<kda::IndexOp>(op)) {
      auto axis = kernel_.axis(index.getOver());
      step.kind = axis && axis.getRole() == kda::AxisRole::Feature ? Kind::column_index : Kind::row_index;
      if (!axis || (step.kind == Kind::row_index && axis.getRole() != kda::AxisRole::Rows))
        refuse(op, "numbers an axis that is neither rows nor features");
    } else if (auto clamp = llvm::dyn_cast<kda::ClampOp>(op)) {
      step.number = clamp.getLower().convertToDouble();
      step.upper = clamp.getUpper().convertToDouble();
    } else if (auto round = llvm::dyn_cast<kda::RoundOp>(op)) {
      step.storage = storage_of(round.getStorage());
    } else if (auto scan = llvm::dyn_cast<kda::ScanOp>(op)) {
      step.exclusive = scan.getExclusive();
      step.reverse = scan.getReverse();
    } else if (auto shift = llvm::dyn_cast<kda::ShiftOp>(op)) {
      step.amount = shift.getAmount();
      step.number = shift.getFill().convertToDouble();
    } else if (auto boundary = llvm::dyn_cast<kda::BoundaryOp>(op)) {
      step.amount = boundary.getEvery();
    } else if (auto conversion = llvm::dyn_cast<kda::ToFixedOp>(op)) {
      step.amount = conversion.getLimit();
      if (auto parts = kda::small_side(conversion)) {
        step.kind = Kind::to_fixed_small_side;
        step.operands = {numbers_.lookup(parts->z), -1, -1};
        step.number = parts->scalar.value();
      }
    } else if (llvm::isa<kda::MulOp>(op)) {
      use_exact_scaling(step, op);
    } else if (auto sum = llvm::dyn_cast<kda::SumOp>(op)) {
      fill_reduction(step, op, sum.getOver());
      if (step.kind == Kind::sum && step.over.columns && !step.over.rows) use_factors(step, sum.getX());
      if (step.kind == Kind::tile_sum) step.operands[1] = terms_of(sum.getX());
    } else if (auto norm = llvm::dyn_cast<kda::InverseNormOp>(op)) {
      fill_reduction(step, op, norm.getOver());
    } else if (auto max = llvm::dyn_cast<kda::MaxReduceOp>(op)) {
      fill_reduction(step, op, max.getOver());
      if (step.kind == Kind::tile_sum) refuse(op, "takes a maximum over tiles, which no kernel can do in one pass");
    }
  }

  /// A product with +-2^k is exact.
  void use_exact_scaling(Step& step, mlir::Operation* op) {
    for (int i = 0; i < 2; ++i) {
      auto scalar = kda::constant_scalar(op->getOperand(i));
      if (!scalar) continue;
      int exponent = 0;
      double factor = scalar->value();
      if (std::fabs(std::frexp(factor, &exponent)) != 0.5 || std::abs(exponent) > 64) continue;
      step.kind = Kind::scale_exactly;
      step.number = factor;
      step.operands = {step.operands[1 - i], -1, -1};
      return;
    }
  }

  void fill_reduction(Step& step, mlir::Operation* op, mlir::ArrayAttr over) {
    bool batch = false, chunk = false;
    for (mlir::Attribute attribute : over) {
      auto role = kernel_.axis(llvm::cast<mlir::StringAttr>(attribute).getValue()).getRole();
      if (role == kda::AxisRole::Rows) step.over.rows = true;
      if (role == kda::AxisRole::Head) step.over.heads = true;
      if (role == kda::AxisRole::Feature) step.over.columns = true;
      if (role == kda::AxisRole::Batch) batch = true;
      if (role == kda::AxisRole::Chunk) chunk = true;
    }
    const Axes& from = program_.values[step.operands[0]].axes;
    if (batch != chunk) refuse(op, "goes over the batch or the chunks alone; it must go over both");
    if (batch && from.rows && !step.over.rows) refuse(op, "goes over the tiles, but not over their rows");
    if (!batch) return;
    step.kind = Kind::tile_sum;
    step.index = program_.tile_sums++;
  }

  /// A sum over columns whose operand is a product takes its factors, for the fma leaf.
  void use_factors(Step& step, mlir::Value x) {
    auto product = x.getDefiningOp<kda::MulOp>();
    if (!product) return;
    step.of_products = true;
    step.operands[1] = numbers_.lookup(product.getA());
    step.operands[2] = numbers_.lookup(product.getB());
  }

  /// What a sum over tiles adds up in the end: x before any sums inside the tile.
  int terms_of(mlir::Value x) {
    while (auto sum = x.getDefiningOp<kda::SumOp>()) x = sum.getX();
    return numbers_.lookup(x);
  }

  /// Prologue and epilogue values keep an array of their own; in the tile phase an array is free after its last use.
  void assign_slots() {
    std::vector<int> last_use(program_.values.size(), -1);
    for (int i = 0; i < int(program_.steps.size()); ++i)
      for (int operand : program_.steps[i].operands)
        if (operand >= 0) last_use[operand] = i;
    for (const Write& write : program_.writes) last_use[write.value] = int(program_.steps.size());
    std::vector<int> free;
    for (int i = 0; i < int(program_.steps.size()); ++i) {
      const Step& step = program_.steps[i];
      Value& result = program_.values[step.result];
      bool reuse = result.section == Section::Tile && !free.empty();
      result.slot = reuse ? free.back() : program_.slots++;
      if (reuse) free.pop_back();
      std::set<int> done(step.operands.begin(), step.operands.end());
      done.insert(step.result);  // a value that nobody uses
      for (int value : done)
        if (value >= 0 && last_use[value] <= i && program_.values[value].section == Section::Tile)
          free.push_back(program_.values[value].slot);
    }
  }

  kda::KernelOp kernel_;
  std::set<std::string> taps_;
  Program program_;
  llvm::DenseMap<mlir::Value, int> numbers_;
};

}  // namespace

Program build_program(kda::KernelOp kernel, const std::vector<std::string>& taps) {
  return ProgramBuilder(kernel, taps).build();
}

}  // namespace kdagen::evaluator
