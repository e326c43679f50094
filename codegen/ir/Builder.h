// SPDX-License-Identifier: Apache-2.0
// Builds kda ops with inferred axes. The same calls serve import, adjoint rules and rewrites.
#pragma once
#include "codegen/ir/Dialect.h"
#include "codegen/ir/Scalar.h"

namespace kdagen::kda {

class Builder {
 public:
  /// Inserts where `builder` stands; new ops get `location`.
  Builder(mlir::OpBuilder& builder, mlir::Location location) : builder_(builder), location_(location) {}
  mlir::OpBuilder& raw() { return builder_; }
  mlir::MLIRContext* context() { return builder_.getContext(); }
  mlir::Location location() const { return location_; }
  void set_location(mlir::Location location) { location_ = location; }

  mlir::Value constant(const Scalar& scalar);
  mlir::Value constant(double value) { return constant(Scalar::number(value)); }
  /// Any unary or binary pointwise op; the result has the union of the operands' axes and element f32 (of fixed-point
  /// operands: theirs).
  template <typename OpTy>
  mlir::Value pointwise(mlir::ValueRange operands) {
    return builder_.create<OpTy>(location_, union_type(operands, false), operands).getResult();
  }
  /// The same with element i1.
  template <typename OpTy>
  mlir::Value compare(mlir::ValueRange operands) {
    return builder_.create<OpTy>(location_, union_type(operands, true), operands).getResult();
  }
  mlir::Value neg(mlir::Value x) { return pointwise<NegOp>({x}); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return pointwise<AddOp>({a, b}); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return pointwise<SubOp>({a, b}); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return pointwise<MulOp>({a, b}); }
  mlir::Value mul(mlir::Value a, const Scalar& b) { return b.is(1.0) ? a : mul(a, constant(b)); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return pointwise<DivOp>({a, b}); }
  mlir::Value exp2(mlir::Value x) { return pointwise<Exp2Op>({x}); }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return pointwise<SelectOp>({condition, a, b});
  }
  mlir::Value clamp(mlir::Value x, double lower, double upper);
  mlir::Value round(mlir::Value x, mlir::Type storage);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<std::string> over);
  mlir::Value max_reduce(mlir::Value x, llvm::ArrayRef<std::string> over);
  mlir::Value scan(mlir::Value x, llvm::StringRef over, bool exclusive, bool reverse);
  mlir::Value last(mlir::Value x, llvm::StringRef over);
  /// The result has x's axes and `over`.
  mlir::Value at_last(mlir::Value x, llvm::StringRef over);
  mlir::Value shift(mlir::Value x, llvm::StringRef over, int64_t amount, double fill);
  /// x in the last row before the row's sub-chunk, 0 in the first.
  mlir::Value boundary(mlir::Value x, llvm::StringRef over, int64_t every);
  /// Row numbers {b, n, t} or column numbers {d}.
  mlir::Value index(llvm::StringRef over);
  /// x with the axes of `like` added (x itself if it has them all).
  mlir::Value broadcast_like(mlir::Value x, mlir::Value like);
  /// x summed over the axes it has and `like` lacks: the adjoint of broadcast (x itself if there are none). One kda.sum
  /// for each stage, so that each has one order of additions: inside a tile features, then rows; over tiles (parameter
  /// gradients) rows, then batch and chunk together, then features, then heads.
  mlir::Value sum_to(mlir::Value x, mlir::Value like);

  /// The union of the operands' axes in the kernel's order; i1, the operands' fixed-point type, or f32.
  ValueType union_type(mlir::ValueRange operands, bool truth_value);
  /// The type with these axes, put into the kernel's order.
  ValueType make_type(llvm::ArrayRef<std::string> axes, bool truth_value = false);
  KernelOp kernel();

 private:
  mlir::OpBuilder& builder_;
  mlir::Location location_;
};

}  // namespace kdagen::kda
