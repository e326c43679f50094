// SPDX-License-Identifier: Apache-2.0
// The ops of the kda dialect. Formulas stand in the summaries; shapes are axis lists, never positions.
#ifndef KDA_OPS
#define KDA_OPS
include "codegen/ir/KdaBase.td"

class Kda_Op<string mnemonic, list<Trait> traits = []> : Op<Kda_Dialect, mnemonic, traits>;
def Kda_Adjoint : DeclareOpInterfaceMethods<Kda_AdjointOpInterface>;
// Verifies that the result has the union of the operands' axes.
def Kda_UnionAxes : NativeOpTrait<"UnionAxes"> { let cppNamespace = "::kdagen::kda"; }

// ---- structure ---------------------------------------------------------------------------------------------------
def Kda_KernelOp : Kda_Op<"kernel", [IsolatedFromAbove, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "one pass of a spec: all tensors read, computed and written";
  let description = [{
    `axes` lists every axis in canonical order (batch, chunk, rows, head, group, feature). `parallel` and `sequential`
    split the instance axes (batch, chunk, head, group): a sequential axis carries state from one instance to the next.
    `options` is the dictionary of resolved option values, for headers and hashes.
  }];
  let arguments = (ins StrAttr:$spec, StrAttr:$direction, ArrayAttr:$axes,
                       StrArrayAttr:$parallel, StrArrayAttr:$sequential, DictionaryAttr:$options);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$spec $direction `axes` $axes `parallel` $parallel `sequential` $sequential
                         `options` $options attr-dict-with-keyword $body}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &block() { return getBody().front(); }
    /// The axis called `name`; null if the kernel has none.
    AxisAttr axis(::llvm::StringRef name);
    /// The (only) axis with this role; null if the kernel has none.
    AxisAttr axis(AxisRole role);
    int64_t chunk() { auto a = axis(AxisRole::Rows); return a ? a.getExtent() : 1; }
    int64_t dim() { auto a = axis(AxisRole::Feature); return a ? a.getExtent() : 1; }
  }];
}

def Kda_InputOp : Kda_Op<"input", [Pure]> {
  let summary = "a tensor read from memory, widened to f32";
  let description = [{role: input | param | cotangent | residual. `storage` is its type in memory. lower/upper: declared bounds.
    `absent`: what an optional tensor reads as when the caller leaves it out (0 if not given).}];
  let arguments = (ins StrAttr:$tensor, StrAttr:$role, TypeAttr:$storage, OptionalAttr<F64Attr>:$lower,
                       OptionalAttr<F64Attr>:$upper, UnitAttr:$optional, OptionalAttr<F64Attr>:$absent);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$tensor `role` $role `storage` $storage attr-dict `:` type($result)";
}

def Kda_OutputOp : Kda_Op<"output"> {
  let summary = "a tensor written to memory, narrowed from f32 with one rounding (to nearest even)";
  let description = [{
    role: output | gradient | param_gradient | residual | tap. `axes` are the tensor's axes (a value with fewer is
    broadcast; one with others is refused). unit_*: the caller hands over cotangent/unit (as kda.constant; used by derive).
    `anchor`: the stored number is the user's value * 2^anchor; the factor is already part of `value` (its exponential
    is 2^(exponent + anchor)). `anchor_kind`: static | subchunk, while the anchor still has to be chosen.
    `anchor_tensor`: the stored number is the user's value * 2^(anchor_sign * n), n by sub-chunk in the output of that name.
    `every`: only the first row of each sub-chunk of so many rows is written; the tensor has these in place of the rows.
  }];
  let arguments = (ins Kda_ValueType:$value, StrAttr:$tensor, StrAttr:$role, TypeAttr:$storage, StrArrayAttr:$axes,
                       OptionalAttr<F64Attr>:$unit_coefficient, OptionalAttr<ArrayAttr>:$unit_symbols,
                       DefaultValuedAttr<I64Attr, "0">:$anchor,
                       OptionalAttr<StrAttr>:$anchor_kind, OptionalAttr<StrAttr>:$anchor_tensor,
                       DefaultValuedAttr<I64Attr, "1">:$anchor_sign, DefaultValuedAttr<I64Attr, "0">:$every);
  let assemblyFormat = "$value `as` $tensor `role` $role `storage` $storage `axes` $axes attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Kda_ConstantOp : Kda_Op<"constant", [Pure]> {
  let summary = "coefficient * product of symbols: kept symbolic so that factors can cancel exactly";
  let arguments = (ins F64Attr:$coefficient, ArrayAttr:$symbols);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$coefficient $symbols attr-dict `:` type($result)";
}

def Kda_IndexOp : Kda_Op<"index", [Pure]> {
  let summary = "the row number in the chunk, or the column number, as a float";
  let arguments = (ins StrAttr:$over);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$over attr-dict `:` type($result)";
}

// ---- pointwise ---------------------------------------------------------------------------------------------------
class Kda_Unary<string mnemonic, string text, list<Trait> traits = []>
    : Kda_Op<mnemonic, !listconcat([Pure, Kda_UnionAxes, Kda_Adjoint], traits)> {
  let summary = text;
  let arguments = (ins Kda_ValueType:$x);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}
def Kda_NegOp      : Kda_Unary<"neg", "-x">;
def Kda_ExpOp      : Kda_Unary<"exp", "e^x">;
def Kda_Exp2Op     : Kda_Unary<"exp2", "2^x">;
def Kda_LogOp      : Kda_Unary<"log", "natural logarithm of x">;
def Kda_Log1pOp    : Kda_Unary<"log1p", "log(1 + x)">;
def Kda_SqrtOp     : Kda_Unary<"sqrt", "sqrt(x)">;
def Kda_RsqrtOp    : Kda_Unary<"rsqrt", "1/sqrt(x)">;
def Kda_RcpOp      : Kda_Unary<"rcp", "1/x">;
def Kda_SigmoidOp  : Kda_Unary<"sigmoid", "1/(1 + e^-x)">;
def Kda_SigmoidGradOp : Kda_Unary<"sigmoid_grad", "sigmoid'(x) = e/(1+e)^2 with e = exp(-|x|)">;
def Kda_SoftplusOp : Kda_Unary<"softplus", "log(1 + e^x) = max(x,0) + log1p(e^-|x|)">;
def Kda_TanhOp     : Kda_Unary<"tanh", "tanh(x)">;
def Kda_ReluOp     : Kda_Unary<"relu", "max(x, 0)">;
def Kda_AbsOp      : Kda_Unary<"abs", "|x|">;
def Kda_IsNanOp    : Kda_Unary<"isnan", "whether x is NaN (element i1)">;
def Kda_DetachOp   : Kda_Unary<"detach", "the value of x, without a gradient">;

class Kda_Binary<string mnemonic, string text, list<Trait> traits = []>
    : Kda_Op<mnemonic, !listconcat([Pure, Kda_UnionAxes, Kda_Adjoint], traits)> {
  let summary = text;
  let arguments = (ins Kda_ValueType:$a, Kda_ValueType:$b);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, results)";
}
def Kda_AddOp  : Kda_Binary<"add", "a + b", [Commutative]>;
def Kda_SubOp  : Kda_Binary<"sub", "a - b">;
def Kda_MulOp  : Kda_Binary<"mul", "a * b", [Commutative]>;
def Kda_DivOp  : Kda_Binary<"div", "a / b">;
def Kda_PowOp  : Kda_Binary<"pow", "a^b">;
def Kda_MinOp  : Kda_Binary<"min", "min(a, b); the gradient is shared half and half at a tie", [Commutative]>;
def Kda_MaxOp  : Kda_Binary<"max", "max(a, b); the gradient is shared half and half at a tie", [Commutative]>;
def Kda_LessOp : Kda_Binary<"less", "a < b (element i1)">;
def Kda_LessEqualOp : Kda_Binary<"less_equal", "a <= b (element i1)">;
def Kda_EqualOp : Kda_Binary<"equal", "a == b (element i1)", [Commutative]>;

def Kda_FmaOp : Kda_Op<"fma", [Pure, Kda_UnionAxes, Kda_Adjoint]> {
  let summary = "a*b + c with one rounding";
  let arguments = (ins Kda_ValueType:$a, Kda_ValueType:$b, Kda_ValueType:$c);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` functional-type(operands, results)";
}
def Kda_SelectOp : Kda_Op<"select", [Pure, Kda_UnionAxes, Kda_Adjoint]> {
  let summary = "condition ? a : b; the branch not taken contributes nothing to a gradient";
  let arguments = (ins Kda_ValueType:$condition, Kda_ValueType:$a, Kda_ValueType:$b);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` functional-type(operands, results)";
}
def Kda_ClampOp : Kda_Op<"clamp", [Pure, Kda_UnionAxes, Kda_Adjoint]> {
  let summary = "min(max(x, lower), upper); gradient 1 inside and at the bounds, 0 outside";
  let arguments = (ins Kda_ValueType:$x, F64Attr:$lower, F64Attr:$upper);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `from` $lower `to` $upper attr-dict `:` functional-type(operands, results)";
}
def Kda_RoundOp : Kda_Op<"round", [Pure, Kda_UnionAxes, Kda_Adjoint]> {
  let summary = "x rounded to `storage` (nearest even) and widened again; adjoint 1 (straight through)";
  let arguments = (ins Kda_ValueType:$x, TypeAttr:$storage);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `to` $storage attr-dict `:` functional-type(operands, results)";
}

// No adjoint: the derivative is 0 but at steps, where there is none. It stands under kda.detach.
def Kda_RintOp : Kda_Op<"rint", [Pure, Kda_UnionAxes]> {
  let summary = "the nearest integer, to even at a tie";
  let arguments = (ins Kda_ValueType:$x);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

// ---- fixed point -------------------------------------------------------------------------------------------------
// neg, add, sub, rint, broadcast, sums over rows, scans, last and boundary work on fixed-point values too, and exactly;
// exp2 takes one.
def Kda_ToFixedOp : Kda_Op<"to_fixed", [Pure, Kda_UnionAxes]> {
  let summary = "x in units of 2^-fraction_bits: nearest (even) integer, saturated at +-limit units; sums of a NaN are NaN where they become floats";
  let arguments = (ins Kda_ValueType:$x, I64Attr:$limit);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `limit` $limit attr-dict `:` functional-type(operands, results)";
}
def Kda_FromFixedOp : Kda_Op<"from_fixed", [Pure, Kda_UnionAxes]> {
  let summary = "a fixed-point value as a float (one rounding, to nearest even)";
  let arguments = (ins Kda_ValueType:$x);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

// ---- over axes ---------------------------------------------------------------------------------------------------
class Kda_Reduce<string mnemonic, string text> : Kda_Op<mnemonic, [Pure, Kda_Adjoint]> {
  let summary = text;
  let arguments = (ins Kda_ValueType:$x, StrArrayAttr:$over);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Kda_SumOp : Kda_Reduce<"sum", "the sum over the listed axes; rows: valid rows only, in the scan's own order (its total)">;
def Kda_MaxReduceOp : Kda_Reduce<"max_reduce", "the maximum over the listed axes; the gradient is shared evenly among ties">;

def Kda_InverseNormOp : Kda_Op<"inverse_norm", [Pure]> {
  let summary = "rsqrt(factor * sum x^2 + eps) over the listed axes (features), right also where that sum is beyond a float";
  let arguments = (ins Kda_ValueType:$x, Kda_ValueType:$factor, Kda_ValueType:$eps, StrArrayAttr:$over);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `,` $factor `,` $eps `over` $over attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class Kda_OverRows<string mnemonic, string text, dag extra, string format> : Kda_Op<mnemonic, [Pure, Kda_Adjoint]> {
  let summary = text;
  let arguments = !con((ins Kda_ValueType:$x, StrAttr:$over), extra);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `over` $over " # format # " attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Kda_ScanOp : Kda_OverRows<"scan", "sum over rows s <= r (exclusive: s < r; reverse: s >= r, s > r), restarted in each chunk",
    (ins BoolAttr:$exclusive, BoolAttr:$reverse), "`exclusive` $exclusive `reverse` $reverse">;
def Kda_LastOp : Kda_OverRows<"last", "the value in the last valid row", (ins), "">;
def Kda_AtLastOp : Kda_OverRows<"at_last", "x in the last valid row, 0 in the others: the adjoint of kda.last", (ins), "">;
def Kda_ShiftOp : Kda_OverRows<"shift", "row r gets row r - amount of the same chunk, or `fill` where that row is absent",
    (ins I64Attr:$amount, F64Attr:$fill), "`amount` $amount `fill` $fill">;
def Kda_BoundaryOp : Kda_Op<"boundary", [Pure]> {
  let summary = "for each row, x in the last row before its sub-chunk of `every` rows; 0 in the first sub-chunk";
  let arguments = (ins Kda_ValueType:$x, StrAttr:$over, I64Attr:$every);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x `over` $over `every` $every attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Kda_BroadcastOp : Kda_Op<"broadcast", [Pure, Kda_Adjoint]> {
  let summary = "x with further axes, along which it is constant";
  let arguments = (ins Kda_ValueType:$x);
  let results = (outs Kda_ValueType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
#endif
