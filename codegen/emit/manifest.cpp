// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/manifest.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/emit/aliases.h"
#include "codegen/emit/statements.h"
#include "kdagen/error.h"
#include "llvm/ADT/DenseSet.h"

using namespace kdagen::kda;
using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

runtime::DType dtype_of(mlir::Type storage) {
  if (storage.isBF16()) return runtime::DType::bf16;
  if (storage.isF16()) return runtime::DType::fp16;
  if (storage.isInteger(8)) return runtime::DType::i8;
  if (storage.isInteger(32)) return runtime::DType::i32;
  return runtime::DType::f32;
}
int element_bytes(mlir::Type storage) { return std::max(1u, storage.getIntOrFloatBitWidth() / 8); }

runtime::TensorRole role_of(llvm::StringRef role) {
  using R = runtime::TensorRole;
  for (auto [name, value] : {std::pair{"input", R::input},
                             {"param", R::param},
                             {"cotangent", R::cotangent},
                             {"output", R::output},
                             {"gradient", R::gradient},
                             {"param_gradient", R::param_gradient},
                             {"residual", R::residual},
                             {"tap", R::tap}})
    if (role == name) return value;
  throw KdagenBug("emit: unknown tensor role " + role.str());
}

/// What the last stage of the parameter sums reads and writes four columns at a time.
void note_finish(const Program& program, std::set<std::string>& names) {
  auto summed = [&](mlir::Operation* op) {
    return llvm::any_of(program.parameter_sums, [&](const ParameterSum& sum) { return sum.op == op; });
  };
  KernelOp kernel = program.kernel;
  llvm::DenseSet<mlir::Operation*> visited;
  llvm::SmallVector<mlir::Operation*> pending;
  for (auto output : kernel.block().getOps<OutputOp>()) {
    if (section_of(output.getValue()) == Section::Tile) continue;
    if (shape_of(output.getValue()) == Shape::Columns) names.insert(output.getTensor().str());
    pending.push_back(output.getValue().getDefiningOp());
  }
  while (!pending.empty()) {
    mlir::Operation* op = pending.pop_back_val();
    if (!visited.insert(op).second || summed(op)) continue;
    auto input = mlir::dyn_cast<InputOp>(op);
    if (input && shape_of(input.getResult()) == Shape::Columns) names.insert(input.getTensor().str());
    for (mlir::Value operand : op->getOperands()) pending.push_back(operand.getDefiningOp());
  }
}

/// Tensors that some statement reads or writes four columns at a time.
std::set<std::string> vector_tensors(const Program& program) {
  std::set<std::string> names;
  auto note = [&](const Statement& s) {
    Shape shape = s.value ? shape_of(s.value) : Shape::Single;
    bool columns = shape == Shape::Tile || shape == Shape::Columns;
    if (s.map != Map::Row || !columns) return;
    if (s.kind == Kind::Load) names.insert(mlir::cast<InputOp>(s.op).getTensor().str());
    if (s.kind == Kind::Store) names.insert(mlir::cast<OutputOp>(s.op).getTensor().str());
  };
  for (const Statement& s : program.prologue) note(s);
  for (const Region& region : program.regions)
    for (const Statement& s : region.statements) note(s);
  note_finish(program, names);
  // Surplus tiles are cleared four columns at a time.
  KernelOp kernel = program.kernel;
  for (auto output : kernel.block().getOps<OutputOp>())
    if (section_of(output.getValue()) == Section::Tile && has_role(output.getValue(), AxisRole::Feature))
      names.insert(output.getTensor().str());
  return names;
}
}  // namespace

std::string hash_text(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string kernel_name(const Program& program) {
  KernelOp kernel = program.kernel;
  return kernel.getSpec().str() + "_" + kernel.getDirection().str();
}

int partial_width(const Program& program, const ParameterSum& sum) {
  return sum.partial == Shape::Columns ? program.tiling.width : 1;
}

runtime::Manifest describe(const Program& program, const Names& names, const EmitOptions& options) {
  using namespace runtime;
  KernelOp kernel = program.kernel;
  Manifest manifest;
  manifest.kernel = kernel_name(program);
  manifest.spec = kernel.getSpec().str();
  manifest.pass = kernel.getDirection().str();
  manifest.spec_hash = options.spec_hash;
  manifest.chunk = program.tiling.chunk;
  manifest.dim = program.tiling.dim;
  manifest.tiles_per_segment = kTilesPerSegment;
  manifest.arch = options.arch;
  for (auto option : kernel.getOptions())
    if (auto text = mlir::dyn_cast<mlir::StringAttr>(option.getValue()))
      manifest.options[option.getName().str()] = text.str();
  for (mlir::Attribute attribute : kernel.getAxes()) {
    auto axis = mlir::cast<AxisAttr>(attribute);
    static const runtime::AxisRole roles[] = {runtime::AxisRole::batch, runtime::AxisRole::chunk,
                                              runtime::AxisRole::rows,  runtime::AxisRole::head,
                                              runtime::AxisRole::head,  runtime::AxisRole::feature};
    manifest.axes.push_back({axis.getName().str(), roles[int(axis.getRole())]});
  }
  auto vectors = vector_tensors(program);
  bool htd = options.compile.layout == kdagen::Layout::htd;
  std::vector<ArgumentInfo> maps;
  auto add = [&](const std::string& name, runtime::Direction direction, llvm::StringRef role, mlir::Type storage,
                 llvm::ArrayRef<std::string> axes, bool optional, bool tile, int64_t every = 0) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.direction = direction;
    tensor.role = role_of(role);
    tensor.dtype = dtype_of(storage);
    tensor.optional = optional;
    tensor.subchunk_rows = int(every);
    tensor.vector_bytes = vectors.count(name) ? 4 * element_bytes(storage) : element_bytes(storage);
    auto rows = kernel.axis(kda::AxisRole::Rows);
    for (const std::string& axis : axes) {
      auto kind = kernel.axis(axis).getRole();
      if (kind != kda::AxisRole::Batch && kind != kda::AxisRole::Chunk) tensor.axes.push_back(axis);
    }
    bool token = rows && llvm::is_contained(tensor.axes, rows.getName().str());
    tensor.layout = !tile                                                              ? runtime::Layout::param
                    : program.tile_major.count(name) && (token || role == "cotangent") ? runtime::Layout::tile
                    : htd                                                              ? runtime::Layout::htd
                                                                                       : runtime::Layout::bthd;
    if (!names.map(name).empty()) {
      tensor.vector_bytes = std::max(tensor.vector_bytes, 16);
      auto staged = llvm::find_if(program.staging.tensors, [&](StagedTensor t) { return t.input.getTensor() == name; });
      maps.push_back({names.map(name), ArgumentKind::tensor_map, name, "", staged->rows});
    }
    manifest.tensors.push_back(tensor);
    ArgumentInfo argument;
    argument.name = names.tensor(name);
    argument.tensor = name;
    argument.kind = !tile                                                           ? ArgumentKind::pointer
                    : token && tensor.layout != runtime::Layout::tile && every == 0 ? ArgumentKind::rows
                                                                                    : ArgumentKind::tile;
    manifest.arguments.push_back(argument);
  };
  for (auto input : kernel.block().getOps<InputOp>()) {
    llvm::SmallVector<std::string> axes;
    for (auto axis : type_of(input.getResult()).getAxes()) axes.push_back(axis.str());
    add(input.getTensor().str(), runtime::Direction::in, input.getRole(), input.getStorage(), axes, input.getOptional(),
        section_of(input.getResult()) == Section::Tile);
  }
  for (auto output : kernel.block().getOps<OutputOp>()) {
    llvm::SmallVector<std::string> axes;
    for (auto axis : output.getAxes()) axes.push_back(mlir::cast<mlir::StringAttr>(axis).str());
    add(output.getTensor().str(), runtime::Direction::out, output.getRole(), output.getStorage(), axes, false,
        section_of(output.getValue()) == Section::Tile, int64_t(output.getEvery()));
    manifest.tensors.back().anchor_exponent = int(output.getAnchor());
    if (auto anchor = output.getAnchorTensor()) {
      manifest.tensors.back().anchor_tensor = anchor->str();
      manifest.tensors.back().anchor_sign = int(output.getAnchorSign());
    }
    if (InputOp input = alias_of(program, output)) manifest.tensors.back().may_alias = input.getTensor().str();
    if (auto unit = output.getUnitSymbols())
      manifest.tensors.back().unit = Scalar::of(output.getUnitCoefficient()->convertToDouble(), *unit).text();
  }
  manifest.arguments.insert(manifest.arguments.begin(), maps.begin(), maps.end());  // they are 64-byte aligned
  auto workspace = [&](const std::string& name, DType dtype, Product elements) {
    manifest.workspace.push_back({name, dtype, elements});
    manifest.arguments.push_back({name, ArgumentKind::workspace, "", ""});
  };
  workspace("first_tile", DType::i64, {"sequences_plus_1"});
  workspace("sequence_start", DType::i64, {"sequences_plus_1"});
  for (const ParameterSum& sum : program.parameter_sums) {
    std::string width = std::to_string(partial_width(program, sum));
    workspace(sum.name + "_partial", DType::f32,
              {"heads", program.tiling.tiles_per_block < kTilesPerSegment ? "tiles" : "segments", width});
    workspace(sum.name + "_columns", DType::f32, {"heads", width});
  }
  manifest.arguments.push_back({"cu_seqlens", ArgumentKind::cu_seqlens, "", ""});
  for (const char* size : {"offset_bytes", "tokens", "heads", "sequences", "tiles", "segments"})
    manifest.arguments.push_back({size, ArgumentKind::size, "", size});
  return manifest;
}

std::vector<Member> argument_members(const Program& program, const Names& names, const runtime::Manifest& manifest) {
  using namespace runtime;
  std::vector<Member> members;
  auto text = [](DType dtype) {
    switch (dtype) {
      case DType::bf16:
        return "bf16";
      case DType::fp16:
        return "fp16";
      case DType::i8:
        return "signed char";
      case DType::i32:
        return "int";
      default:
        return "float";
    }
  };
  for (const ArgumentInfo& argument : manifest.arguments) {
    if (argument.kind == ArgumentKind::size) {
      members.push_back({"long long", argument.name, ""});
      continue;
    }
    if (argument.kind == ArgumentKind::cu_seqlens) {
      members.push_back({"const void*", argument.name, "null: batch rows of equal length"});
      continue;
    }
    if (argument.kind == ArgumentKind::workspace) {
      bool table = manifest.find_workspace(argument.name)->dtype == DType::i64;
      members.push_back({table ? "long long*" : "float*", argument.name, "workspace"});
      continue;
    }
    if (argument.kind == ArgumentKind::tensor_map) {
      members.push_back({"TensorMap", argument.name, "for the copy engine"});
      continue;
    }
    const TensorInfo& tensor = *manifest.find_tensor(argument.tensor);
    std::string type = text(tensor.dtype), axes;
    if (tensor.direction == runtime::Direction::in) type = "const " + type;
    for (const std::string& axis : tensor.axes) axes += (axes.empty() ? "" : ", ") + axis;
    std::string view = argument.kind == ArgumentKind::rows   ? fmt::format("Rows<{}>", type)
                       : argument.kind == ArgumentKind::tile ? fmt::format("Tiles<{}>", type)
                                                             : type + "*";
    members.push_back({view, argument.name, fmt::format("{} [{}]", std::string(name_of(tensor.role)), axes)});
  }
  return members;
}

}  // namespace kdagen::emit
