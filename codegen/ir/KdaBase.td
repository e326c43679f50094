// SPDX-License-Identifier: Apache-2.0
// The kda dialect: values with named axes. Types, attributes and the adjoint interface.
#ifndef KDA_BASE
#define KDA_BASE
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kda_Dialect : Dialect {
  let name = "kda";
  let cppNamespace = "::kdagen::kda";
  let summary = "Tensors with named axes, reductions, scans, and their derivatives";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

// ---- axes --------------------------------------------------------------------------------------------------------
def Kda_Role : I32EnumAttr<"AxisRole", "what an axis stands for", [
    I32EnumAttrCase<"Batch", 0, "batch">, I32EnumAttrCase<"Chunk", 1, "chunk">, I32EnumAttrCase<"Rows", 2, "rows">,
    I32EnumAttrCase<"Head", 3, "head">, I32EnumAttrCase<"Group", 4, "group">, I32EnumAttrCase<"Feature", 5, "feature">]> {
  let cppNamespace = "::kdagen::kda";
  let genSpecializedAttr = 0;
}

def Kda_AxisAttr : AttrDef<Kda_Dialect, "Axis"> {
  let mnemonic = "axis";
  let summary = "a named axis of a kernel: role and, for rows and features, extent (0: known at launch)";
  let parameters = (ins "::mlir::StringAttr":$name, EnumParameter<Kda_Role>:$role, "int64_t":$extent);
  let assemblyFormat = "`<` $name `,` $role `,` $extent `>`";
}

def Kda_SymbolAttr : AttrDef<Kda_Dialect, "Symbol"> {
  let mnemonic = "symbol";
  let summary = "a symbolic constant to an integer power: ln2^-1, lower_bound^1";
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::FloatAttr":$value, "int64_t":$power);
  let assemblyFormat = "`<` $name `,` $value `,` $power `>`";
}

def Kda_FixedType : TypeDef<Kda_Dialect, "Fixed"> {
  let mnemonic = "fixed";
  let summary = "element type: a 32-bit integer that counts units of 2^-fraction_bits; one integer stands for NaN";
  let parameters = (ins "unsigned":$fractionBits);
  let assemblyFormat = "`<` $fractionBits `>`";
}

def Kda_ValueType : TypeDef<Kda_Dialect, "Value"> {
  let mnemonic = "value";
  let summary = "a list of named axes, in the kernel's order, and an arithmetic element type (f32, i1 or fixed)";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool hasAxis(::llvm::StringRef name) const;
  }];
}

// ---- derivatives -------------------------------------------------------------------------------------------------
def Kda_AdjointOpInterface : OpInterface<"AdjointOpInterface"> {
  let cppNamespace = "::kdagen::kda";
  let description = [{An op that knows its adjoint. All rules stand in codegen/derive/Adjoints.cpp.}];
  let methods = [InterfaceMethod<[{
      Given the cotangent dy of the (single) result, the contributions to each operand's cotangent: a null value where
      the operand has none. A contribution may have more axes than the operand: the caller sums over the surplus.}],
      "::llvm::SmallVector<::mlir::Value>", "adjoint", (ins "::kdagen::kda::Builder &":$build, "::mlir::Value":$dy)>];
}
#endif
