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

namespace {
/// The manifest of a kernel: what it is, its tensors, its workspace, the sizes it asks for.
class Description {
 public:
  Description(const Program& program, const Names& names, const EmitOptions& options)
      : program_(program),
        names_(names),
        kernel_(program.kernel),
        options_(options),
        vectors_(vector_tensors(program)) {}

  runtime::Manifest make() {
    add_identity();
    for (auto input : kernel_.block().getOps<InputOp>()) add_input(input);
    for (auto output : kernel_.block().getOps<OutputOp>()) add_output(output);
    auto& arguments = manifest_.arguments;
    arguments.insert(arguments.begin(), maps_.begin(), maps_.end());  // they are 64-byte aligned
    add_workspace();
    arguments.push_back({"cu_seqlens", runtime::ArgumentKind::cu_seqlens, "", ""});
    for (const char* size : {"offset_bytes", "tokens", "heads", "sequences", "tiles", "segments"})
      arguments.push_back({size, runtime::ArgumentKind::size, "", size});
    return manifest_;
  }

 private:
  void add_identity() {
    manifest_.kernel = kernel_name(program_);
    manifest_.spec = kernel_.getSpec().str();
    manifest_.pass = kernel_.getDirection().str();
    manifest_.spec_hash = options_.spec_hash;
    manifest_.chunk = program_.tiling.chunk;
    manifest_.dim = program_.tiling.dim;
    manifest_.tiles_per_segment = kTilesPerSegment;
    manifest_.arch = options_.arch;
    for (auto option : kernel_.getOptions())
      if (auto text = mlir::dyn_cast<mlir::StringAttr>(option.getValue()))
        manifest_.options[option.getName().str()] = text.str();
    using Role = runtime::AxisRole;
    static const Role roles[] = {Role::batch, Role::chunk, Role::rows, Role::head, Role::head, Role::feature};
    for (mlir::Attribute attribute : kernel_.getAxes()) {
      auto axis = mlir::cast<AxisAttr>(attribute);
      manifest_.axes.push_back({axis.getName().str(), roles[int(axis.getRole())]});
    }
  }

  void add_input(InputOp input) {
    runtime::TensorInfo tensor;
    tensor.name = input.getTensor().str();
    tensor.direction = runtime::Direction::in;
    tensor.optional = input.getOptional();
    llvm::SmallVector<mlir::StringAttr> axes(type_of(input.getResult()).getAxes());
    add(tensor, input.getRole(), input.getStorage(), axes, section_of(input.getResult()) == Section::Tile);
  }

  void add_output(OutputOp output) {
    runtime::TensorInfo tensor;
    tensor.name = output.getTensor().str();
    tensor.direction = runtime::Direction::out;
    tensor.subchunk_rows = int(output.getEvery());
    tensor.anchor_exponent = int(output.getAnchor());
    if (auto anchor = output.getAnchorTensor()) {
      tensor.anchor_tensor = anchor->str();
      tensor.anchor_sign = int(output.getAnchorSign());
    }
    if (InputOp input = alias_of(program_, output)) tensor.may_alias = input.getTensor().str();
    if (auto unit = output.getUnitSymbols())
      tensor.unit = Scalar::of(output.getUnitCoefficient()->convertToDouble(), *unit).text();
    llvm::SmallVector<mlir::StringAttr> axes;
    for (auto axis : output.getAxes()) axes.push_back(mlir::cast<mlir::StringAttr>(axis));
    add(tensor, output.getRole(), output.getStorage(), axes, section_of(output.getValue()) == Section::Tile);
  }

  /// `tile`: it has rows of tokens, or a row a tile; else it belongs to the parameters.
  void add(runtime::TensorInfo& tensor, llvm::StringRef role, mlir::Type storage, llvm::ArrayRef<mlir::StringAttr> axes,
           bool tile) {
    using runtime::ArgumentKind;
    tensor.role = role_of(role);
    tensor.dtype = dtype_of(storage);
    tensor.vector_bytes = (vectors_.count(tensor.name) ? 4 : 1) * element_bytes(storage);
    for (mlir::StringAttr axis : axes) {
      auto kind = kernel_.axis(axis.getValue()).getRole();
      if (kind != kda::AxisRole::Batch && kind != kda::AxisRole::Chunk) tensor.axes.push_back(axis.str());
    }
    auto rows = kernel_.axis(kda::AxisRole::Rows);
    const bool token = rows && llvm::is_contained(tensor.axes, rows.getName().str());
    tensor.layout = layout_of(tensor.name, tile, token || role == "cotangent");
    auto staged =
        llvm::find_if(program_.staging.tensors, [&](StagedTensor t) { return t.input.getTensor() == tensor.name; });
    if (staged != program_.staging.tensors.end()) {
      tensor.vector_bytes = std::max(tensor.vector_bytes, 16);
      if (const std::string& map = names_.map(tensor.name); !map.empty())
        maps_.push_back({map, ArgumentKind::tensor_map, tensor.name, "", staged->rows});
    }
    const bool by_rows = token && tensor.layout != runtime::Layout::tile && tensor.subchunk_rows == 0;
    runtime::ArgumentInfo argument;
    argument.name = names_.tensor(tensor.name);
    argument.tensor = tensor.name;
    argument.kind = !tile ? ArgumentKind::pointer : by_rows ? ArgumentKind::rows : ArgumentKind::tile;
    manifest_.tensors.push_back(tensor);
    manifest_.arguments.push_back(argument);
  }

  runtime::Layout layout_of(const std::string& tensor, bool tile, bool may_be_tile_major) const {
    if (!tile) return runtime::Layout::param;
    if (program_.tile_major.count(tensor) && may_be_tile_major) return runtime::Layout::tile;
    return options_.compile.layout == kdagen::Layout::htd ? runtime::Layout::htd : runtime::Layout::bthd;
  }

  void add_workspace() {
    using runtime::DType;
    auto add = [&](const std::string& name, DType dtype, const runtime::Product& elements) {
      manifest_.workspace.push_back({name, dtype, elements});
      manifest_.arguments.push_back({name, runtime::ArgumentKind::workspace, "", ""});
    };
    add("first_tile", DType::i64, {"sequences_plus_1"});
    add("sequence_start", DType::i64, {"sequences_plus_1"});
    for (const ParameterSum& sum : program_.parameter_sums) {
      const std::string width = std::to_string(partial_width(program_, sum));
      add(sum.name + "_partial", DType::f32,
          {"heads", program_.tiling.tiles_per_block < kTilesPerSegment ? "tiles" : "segments", width});
      add(sum.name + "_columns", DType::f32, {"heads", width});
    }
  }

  const Program& program_;
  const Names& names_;
  KernelOp kernel_;
  const EmitOptions& options_;
  std::set<std::string> vectors_;
  std::vector<runtime::ArgumentInfo> maps_;
  runtime::Manifest manifest_;
};
}  // namespace

runtime::Manifest describe(const Program& program, const Names& names, const EmitOptions& options) {
  return Description(program, names, options).make();
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
