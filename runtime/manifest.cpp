// SPDX-License-Identifier: Apache-2.0
#include "runtime/manifest.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "runtime/problem.h"
#include "runtime/strict_json.h"

namespace kdagen::runtime {
namespace {

template <class Enum>
struct NamedValue {
  Enum value;
  std::string_view name;
};

constexpr std::array<NamedValue<AxisRole>, 5> axis_roles{{{AxisRole::batch, "batch"},
                                                          {AxisRole::chunk, "chunk"},
                                                          {AxisRole::head, "head"},
                                                          {AxisRole::rows, "rows"},
                                                          {AxisRole::feature, "feature"}}};
constexpr std::array<NamedValue<Direction>, 2> directions{{{Direction::in, "in"}, {Direction::out, "out"}}};
constexpr std::array<NamedValue<TensorRole>, 8> tensor_roles{{{TensorRole::input, "input"},
                                                              {TensorRole::param, "param"},
                                                              {TensorRole::cotangent, "cotangent"},
                                                              {TensorRole::output, "output"},
                                                              {TensorRole::gradient, "gradient"},
                                                              {TensorRole::param_gradient, "param_gradient"},
                                                              {TensorRole::residual, "residual"},
                                                              {TensorRole::tap, "tap"}}};
constexpr std::array<NamedValue<Layout>, 4> layouts{
    {{Layout::bthd, "bthd"}, {Layout::htd, "htd"}, {Layout::tile, "tile"}, {Layout::param, "param"}}};
constexpr std::array<NamedValue<ArgumentKind>, 7> argument_kinds{{{ArgumentKind::rows, "rows"},
                                                                  {ArgumentKind::tile, "tile"},
                                                                  {ArgumentKind::pointer, "pointer"},
                                                                  {ArgumentKind::workspace, "workspace"},
                                                                  {ArgumentKind::cu_seqlens, "cu_seqlens"},
                                                                  {ArgumentKind::size, "size"},
                                                                  {ArgumentKind::tensor_map, "tensor_map"}}};
constexpr std::array<NamedValue<When>, 5> whens{{{When::always, "always"},
                                                 {When::packed, "packed"},
                                                 {When::packed_i32, "packed_i32"},
                                                 {When::packed_i64, "packed_i64"},
                                                 {When::fixed, "fixed"}}};

template <class Enum, std::size_t n>
std::string_view name_in(const std::array<NamedValue<Enum>, n>& table, Enum value) {
  for (const auto& row : table)
    if (row.value == value) return row.name;
  throw KdagenBug("enumerator without a name");
}

template <class Enum, std::size_t n>
Enum value_in(const std::array<NamedValue<Enum>, n>& table, const JsonField& field) {
  std::string known;
  for (const auto& row : table) {
    if (row.name == field.string()) return row.value;
    known += known.empty() ? "" : " | ";
    known += row.name;
  }
  field.fail(fmt::format("\"{}\" is not one of {}", field.string(), known));
}

DType read_dtype(const JsonField& field) {
  if (const auto dtype = dtype_from_name(field.string())) return *dtype;
  field.fail(fmt::format("\"{}\" is not a dtype (bf16 | fp16 | f32 | i8 | i32 | i64)", field.string()));
}

Product read_product(const JsonField& field) {
  Product product;
  for (const JsonField& factor : field.items()) product.push_back(factor.name());
  return product;
}

AxisInfo read_axis(const JsonField& field) {
  field.only({"name", "role"});
  return {field.at("name").name(), value_in(axis_roles, field.at("role"))};
}

TensorInfo read_tensor(const JsonField& field) {
  field.only({"name", "direction", "role", "dtype", "axes", "layout", "optional", "vector_bytes", "unit",
              "anchor_exponent", "anchor_tensor", "anchor_sign", "subchunk_rows", "may_alias"});
  TensorInfo tensor;
  tensor.name = field.at("name").name();
  tensor.direction = value_in(directions, field.at("direction"));
  tensor.role = value_in(tensor_roles, field.at("role"));
  tensor.dtype = read_dtype(field.at("dtype"));
  for (const JsonField& axis : field.at("axes").items()) tensor.axes.push_back(axis.name());
  tensor.layout = value_in(layouts, field.at("layout"));
  tensor.optional = field.at("optional").boolean();
  tensor.vector_bytes = static_cast<int>(field.at("vector_bytes").integer(1, 128));
  if (field.has("unit")) tensor.unit = field.at("unit").string();
  if (field.has("anchor_exponent"))
    tensor.anchor_exponent = static_cast<int>(field.at("anchor_exponent").integer(-4096, 4096));
  if (field.has("anchor_tensor")) {
    tensor.anchor_tensor = field.at("anchor_tensor").name();
    tensor.anchor_sign = static_cast<int>(field.at("anchor_sign").integer(-1, 1));
  }
  if (field.has("subchunk_rows"))
    tensor.subchunk_rows = static_cast<int>(field.at("subchunk_rows").integer(1, 1 << 20));
  if (field.has("may_alias")) tensor.may_alias = field.at("may_alias").name();
  return tensor;
}

WorkspaceInfo read_workspace(const JsonField& field) {
  field.only({"name", "dtype", "elements"});
  const std::vector<JsonField> products = field.at("elements").items();
  if (products.size() != 1) field.at("elements").fail("expected a list of exactly one product");
  return {field.at("name").name(), read_dtype(field.at("dtype")), read_product(products[0])};
}

ArgumentInfo read_argument(const JsonField& field) {
  field.only({"name", "kind", "tensor", "size", "rows"});
  ArgumentInfo argument;
  argument.name = field.at("name").name();
  argument.kind = value_in(argument_kinds, field.at("kind"));
  const bool names_tensor = argument.kind == ArgumentKind::rows || argument.kind == ArgumentKind::tile ||
                            argument.kind == ArgumentKind::pointer || argument.kind == ArgumentKind::tensor_map;
  if (names_tensor) argument.tensor = field.at("tensor").name();
  if (argument.kind == ArgumentKind::size) argument.size = field.at("size").name();
  if (!names_tensor && field.has("tensor"))
    field.at("tensor").fail("only the kinds rows, tile, pointer and tensor_map have it");
  if (argument.kind == ArgumentKind::tensor_map)
    argument.rows = static_cast<int>(field.at("rows").integer(1, 256));
  else if (field.has("rows"))
    field.at("rows").fail("only the kind tensor_map has it");
  if (argument.kind != ArgumentKind::size && field.has("size")) field.at("size").fail("only the kind size has it");
  return argument;
}

LaunchInfo read_launch(const JsonField& field) {
  field.only({"entry", "entry_any", "when", "grid", "block", "shared_bytes", "tiles_per_block"});
  LaunchInfo launch;
  launch.entry = field.at("entry").identifier();
  if (field.has("entry_any")) launch.entry_any = field.at("entry_any").identifier();
  launch.when = value_in(whens, field.at("when"));
  for (const JsonField& product : field.at("grid").items()) launch.grid.push_back(read_product(product));
  launch.block = static_cast<int>(field.at("block").integer(1, 1024));
  launch.shared_bytes = static_cast<int>(field.at("shared_bytes").integer(0, 1 << 20));
  if (field.has("tiles_per_block"))
    launch.tiles_per_block = static_cast<int>(field.at("tiles_per_block").integer(1, 1 << 20));
  return launch;
}

template <class Item, class Read>
std::vector<Item> read_list(const JsonField& field, Read read) {
  std::vector<Item> list;
  for (const JsonField& item : field.items()) list.push_back(read(item));
  return list;
}

}  // namespace

std::string_view name_of(AxisRole role) { return name_in(axis_roles, role); }
std::string_view name_of(Direction direction) { return name_in(directions, direction); }
std::string_view name_of(TensorRole role) { return name_in(tensor_roles, role); }
std::string_view name_of(Layout layout) { return name_in(layouts, layout); }
std::string_view name_of(ArgumentKind kind) { return name_in(argument_kinds, kind); }
std::string_view name_of(When when) { return name_in(whens, when); }

const TensorInfo* Manifest::find_tensor(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

const WorkspaceInfo* Manifest::find_workspace(std::string_view name) const {
  const auto found = std::find_if(workspace.begin(), workspace.end(), [&](const auto& w) { return w.name == name; });
  return found == workspace.end() ? nullptr : &*found;
}

int argument_words(ArgumentKind kind) {
  if (kind == ArgumentKind::tensor_map) return 16;
  return kind == ArgumentKind::rows || kind == ArgumentKind::tile ? 4 : 1;
}

int argument_words(const Manifest& manifest) {
  int words = 0;
  bool maps = false;
  for (const ArgumentInfo& argument : manifest.arguments) {
    words += argument_words(argument.kind);
    maps = maps || argument.kind == ArgumentKind::tensor_map;
  }
  return maps ? (words + 7) / 8 * 8 : words;
}

AxisRole axis_role(const Manifest& manifest, std::string_view name) {
  for (const AxisInfo& axis : manifest.axes)
    if (axis.name == name) return axis.role;
  if (name == "b") return AxisRole::batch;
  if (name == "n") return AxisRole::chunk;
  throw UsageError(fmt::format("manifest: no axis is named \"{}\"", name));
}

Manifest load_manifest(std::string_view json_text, std::string_view source) {
  const nlohmann::json parsed = parse_strict_json(json_text, source);
  const JsonField root(parsed, std::string(source));
  const std::int64_t schema = root.at("schema").integer(0);
  if (schema != manifest_schema)
    root.at("schema").fail(fmt::format("schema {} is unknown; this runtime reads schema {}", schema, manifest_schema));
  root.only({"schema", "kernel", "spec", "pass", "spec_hash", "text_hash", "options", "chunk", "dim",
             "tiles_per_segment", "arch", "axes", "tensors", "workspace", "arguments", "launches"});
  Manifest manifest;
  manifest.kernel = root.at("kernel").name();
  manifest.spec = root.at("spec").name();
  manifest.pass = root.at("pass").string();
  manifest.spec_hash = root.at("spec_hash").string();
  manifest.text_hash = root.at("text_hash").string();
  manifest.options = root.at("options").value();
  constexpr std::int64_t int_max = std::numeric_limits<std::int32_t>::max();
  manifest.chunk = static_cast<int>(root.at("chunk").integer(1, int_max));
  manifest.dim = static_cast<int>(root.at("dim").integer(1, int_max));
  manifest.tiles_per_segment = static_cast<int>(root.at("tiles_per_segment").integer(1, int_max));
  manifest.arch = root.at("arch").string();
  manifest.axes = read_list<AxisInfo>(root.at("axes"), read_axis);
  manifest.tensors = read_list<TensorInfo>(root.at("tensors"), read_tensor);
  manifest.workspace = read_list<WorkspaceInfo>(root.at("workspace"), read_workspace);
  manifest.arguments = read_list<ArgumentInfo>(root.at("arguments"), read_argument);
  manifest.launches = read_list<LaunchInfo>(root.at("launches"), read_launch);
  validate(manifest, source);
  return manifest;
}

namespace {

nlohmann::ordered_json json_of(const TensorInfo& tensor) {
  nlohmann::ordered_json json{{"name", tensor.name},          {"direction", name_of(tensor.direction)},
                              {"role", name_of(tensor.role)}, {"dtype", name_of(tensor.dtype)},
                              {"axes", tensor.axes},          {"layout", name_of(tensor.layout)},
                              {"optional", tensor.optional},  {"vector_bytes", tensor.vector_bytes},
                              {"unit", tensor.unit},          {"anchor_exponent", tensor.anchor_exponent}};
  if (!tensor.anchor_tensor.empty()) {
    json["anchor_tensor"] = tensor.anchor_tensor;
    json["anchor_sign"] = tensor.anchor_sign;
  }
  if (tensor.subchunk_rows > 0) json["subchunk_rows"] = tensor.subchunk_rows;
  if (!tensor.may_alias.empty()) json["may_alias"] = tensor.may_alias;
  return json;
}

}  // namespace

std::string dump_manifest(const Manifest& manifest) {
  using nlohmann::ordered_json;
  validate(manifest);
  ordered_json root{{"schema", manifest.schema},
                    {"kernel", manifest.kernel},
                    {"spec", manifest.spec},
                    {"pass", manifest.pass},
                    {"spec_hash", manifest.spec_hash},
                    {"text_hash", manifest.text_hash},
                    {"options", manifest.options},
                    {"chunk", manifest.chunk},
                    {"dim", manifest.dim},
                    {"tiles_per_segment", manifest.tiles_per_segment},
                    {"arch", manifest.arch}};
  for (const char* list : {"axes", "tensors", "workspace", "arguments", "launches"}) root[list] = ordered_json::array();
  for (const AxisInfo& axis : manifest.axes)
    root["axes"].push_back({{"name", axis.name}, {"role", name_of(axis.role)}});
  for (const TensorInfo& tensor : manifest.tensors) root["tensors"].push_back(json_of(tensor));
  for (const WorkspaceInfo& w : manifest.workspace) {
    ordered_json products = ordered_json::array();
    products.push_back(w.elements);
    root["workspace"].push_back({{"name", w.name}, {"dtype", name_of(w.dtype)}, {"elements", products}});
  }
  for (const ArgumentInfo& a : manifest.arguments) {
    ordered_json argument{{"name", a.name}, {"kind", name_of(a.kind)}};
    if (!a.tensor.empty()) argument["tensor"] = a.tensor;
    if (!a.size.empty()) argument["size"] = a.size;
    if (a.rows > 0) argument["rows"] = a.rows;
    root["arguments"].push_back(argument);
  }
  for (const LaunchInfo& l : manifest.launches) {
    ordered_json launch{{"entry", l.entry}};
    if (!l.entry_any.empty()) launch["entry_any"] = l.entry_any;
    launch["when"] = name_of(l.when);
    launch["grid"] = l.grid;
    launch["block"] = l.block;
    launch["shared_bytes"] = l.shared_bytes;
    launch["tiles_per_block"] = l.tiles_per_block;
    root["launches"].push_back(launch);
  }
  try {
    return root.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("manifest: cannot be written: {}", error.what()));
  }
}

}  // namespace kdagen::runtime
