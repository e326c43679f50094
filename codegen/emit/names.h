// SPDX-License-Identifier: Apache-2.0
// C++ identifiers for values, buffers and constants: the user's name first, then an invented one with an underscore.
#pragma once
#include <map>
#include <set>
#include <string>

#include "codegen/ir/Scalar.h"
#include "codegen/schedule/kernel_ir.h"

namespace kdagen::emit {

class Names {
 public:
  explicit Names(const schedule::Program& program);

  /// The variable that holds `value` in this map.
  std::string of(mlir::Value value, schedule::Map map) const;
  /// The value's name without regard to maps, for comments.
  std::string base(mlir::Value value) const;
  std::string buffer(int index) const { return buffers_[index]; }
  /// The argument member of a tensor.
  std::string tensor(const std::string& name) const;
  /// Of a staged tensor: the argument member with its map, and the pointer to its rows in shared memory (else "").
  std::string map(const std::string& tensor) const { return find(maps_, tensor); }
  std::string staged(const std::string& tensor) const { return find(staged_, tensor); }
  /// The variable that holds a row scalar of the next tile (else "").
  std::string ahead(const std::string& tensor) const { return find(ahead_, tensor); }
  /// The named constant for a symbolic scalar.
  std::string constant(const kda::Scalar& scalar) const;
  /// Named constants in the order of their names: identifier -> scalar.
  const std::map<std::string, kda::Scalar>& constants() const { return constants_; }
  /// `wanted`, changed until it is a legal identifier that nothing else uses.
  std::string claim(const std::string& wanted);

 private:
  void name_values(const schedule::Program& program);
  static std::string find(const std::map<std::string, std::string>& names, const std::string& tensor) {
    auto it = names.find(tensor);
    return it == names.end() ? "" : it->second;
  }

  std::string functions_;  ///< how the names of the functions start
  std::set<std::string> taken_;
  std::map<void*, std::string> values_;
  std::set<void*> in_both_maps_;
  std::map<void*, std::string> column_names_;
  std::vector<std::string> buffers_;
  std::map<std::string, std::string> tensors_, maps_, staged_, ahead_;
  std::map<std::string, kda::Scalar> constants_;
};

}  // namespace kdagen::emit
