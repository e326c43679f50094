// SPDX-License-Identifier: Apache-2.0
// Names for values that the user gave none: after what they are and what they are made of.
#pragma once
#include <optional>
#include <string>

#include "codegen/ir/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace kdagen {

/// The user's name, or that of the tensor which a value is read from.
std::optional<std::string> given_name(mlir::Value value);

/// _exp2_minus_g, _row_sum_x_y, _total_x, _x_exp2_g (a product), _x_plus_bias. At most 24 characters:
/// what gets longer is called after its op and the named values that it starts from, _rcp_z, _x_plus_y. They start with
/// an underscore, do not change with unrelated values, and are not yet unique.
class InventedNames {
 public:
  std::string of(mlir::Value value);

 private:
  std::string label(mlir::Value value);
  std::string new_label(mlir::Operation* op);
  std::string shortened(const std::string& text, mlir::Operation* op);
  std::string joined(mlir::Operation* op, const std::string& word, const std::string& word_of_roots);
  std::string operand_label(mlir::Value value);
  static std::string root(mlir::Value value);

  llvm::DenseMap<mlir::Value, std::string> labels_;
};

}  // namespace kdagen
