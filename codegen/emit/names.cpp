// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/names.h"

#include <cctype>

#include <fmt/format.h>

#include "codegen/emit/manifest.h"
#include "codegen/emit/reserved_words.h"
#include "codegen/explain/invented_names.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

std::string identifier(const std::string& text) {
  std::string result;
  for (char c : text) result += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0]))) result = "_" + result;
  // Two underscores are the implementation's.
  for (size_t at; (at = result.find("__")) != std::string::npos;) result.replace(at, 2, "_");
  if (result.size() > 1 && result[0] == '_' && std::isupper(static_cast<unsigned char>(result[1])))
    result = "v" + result;
  return result;
}
}  // namespace

std::string Names::claim(const std::string& wanted) {
  std::string base = identifier(wanted);
  if (belongs_to_headers(base) || base.starts_with(functions_)) base = "v_" + base;
  std::string name = base;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

Names::Names(const Program& program) : functions_(kernel_name(program)) {
  // Members of the argument struct are always written arguments.name, so they have names of their own.
  taken_ = prelude_names();
  taken_.insert(reserved_words().begin(), reserved_words().end());
  const std::set<std::string> always_taken = taken_;
  for (const char* member : {"first_tile", "sequence_start", "cu_seqlens", "offset_bytes", "tokens", "heads",
                             "sequences", "tiles", "segments"})
    taken_.insert(member);
  KernelOp kernel = program.kernel;
  for (mlir::Operation& op : kernel.block()) {
    if (auto input = mlir::dyn_cast<InputOp>(op)) tensors_[input.getTensor().str()] = claim(input.getTensor().str());
    if (auto output = mlir::dyn_cast<OutputOp>(op))
      tensors_[output.getTensor().str()] = claim(output.getTensor().str());
  }
  for (const StagedTensor& staged : program.staging.tensors) {
    InputOp input = staged.input;
    std::string tensor = input.getTensor().str();
    if (program.staging.by_engine && !maps_.count(tensor)) maps_[tensor] = claim(tensor + "_map");
  }
  taken_ = always_taken;
  name_values(program);
  for (const Buffer& buffer : program.buffers) buffers_.push_back(claim(base(buffer.value) + "_" + buffer.name));
  for (const StagedTensor& staged : program.staging.tensors) {
    InputOp input = staged.input;
    if (std::string tensor = input.getTensor().str(); !staged_.count(tensor))
      staged_[tensor] = claim(tensor + "_staged");
  }
  for (InputOp input : program.staging.ahead)
    ahead_[input.getTensor().str()] = claim(input.getTensor().str() + "_ahead");
  taken_.insert(global_names().begin(), global_names().end());  // constants stand outside of functions
  for (mlir::Operation& op : kernel.block())
    if (auto constant = mlir::dyn_cast<ConstantOp>(op)) {
      Scalar scalar = Scalar::of(constant);
      if (scalar.is_number()) continue;
      bool known = false;
      for (const auto& [name, other] : constants_) known |= other == scalar;
      if (known) continue;
      std::string text = scalar.text();
      if (text[0] == '-') text = "minus_" + text.substr(1);
      constants_[claim(text)] = scalar;
    }
}

void Names::name_values(const Program& program) {
  std::set<std::pair<void*, int>> seen;
  auto note = [&](const Statement& s) {
    if (s.value) seen.insert({s.value.getAsOpaquePointer(), int(s.map)});
  };
  for (const Statement& s : program.prologue) note(s);
  for (const Region& region : program.regions)
    for (const Statement& s : region.statements)
      if (s.kind != Kind::ScanBlocks && s.kind != Kind::BlockTotals && s.kind != Kind::Store &&
          s.kind != Kind::Publish && s.kind != Kind::PublishLast && s.kind != Kind::Accumulate)
        note(s);
  InventedNames invented;
  KernelOp kernel = program.kernel;
  for (mlir::Operation& op : kernel.block()) {
    if (op.getNumResults() == 0) continue;
    mlir::Value value = op.getResult(0);
    auto user = user_name(value);
    void* key = value.getAsOpaquePointer();
    if (auto input = mlir::dyn_cast<InputOp>(op)) user = input.getTensor().str();
    if (!user)  // a stored value without a name is called as its tensor
      for (mlir::Operation* reader : value.getUsers())
        if (auto output = mlir::dyn_cast<OutputOp>(reader)) user = output.getTensor().str();
    values_[key] = user ? claim(*user) : claim(invented.of(value));
    // One number a tile is made once a sweep, in either map, for both.
    if (shape_of(value) != Shape::Single && seen.count({key, int(Map::Row)}) && seen.count({key, int(Map::Column)}))
      column_names_[key] = claim(values_[key] + "_column");
  }
}

std::string Names::of(mlir::Value value, Map map) const {
  void* key = value.getAsOpaquePointer();
  if (map == Map::Column)
    if (auto it = column_names_.find(key); it != column_names_.end()) return it->second;
  return values_.at(key);
}

std::string Names::base(mlir::Value value) const { return values_.at(value.getAsOpaquePointer()); }
std::string Names::tensor(const std::string& name) const { return tensors_.at(name); }

std::string Names::constant(const Scalar& scalar) const {
  for (const auto& [name, other] : constants_)
    if (other == scalar) return name;
  return "";
}

}  // namespace kdagen::emit
