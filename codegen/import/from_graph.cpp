// SPDX-License-Identifier: Apache-2.0
#include "codegen/import/from_graph.h"

#include <map>
#include <set>

#include "codegen/diagnostics.h"
#include "codegen/import/node_ops.h"

using namespace mlir;
using nlohmann::json;

namespace kdagen {
namespace {
using kda::AxisAttr;
using kda::AxisRole;
using kda::Builder;

constexpr int64_t max_extent = 4096;  // rows of a chunk, features
constexpr size_t max_nodes = 100'000;

bool is_identifier(const std::string& name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto later = [&](char c) { return letter(c) || c == '_' || (c >= '0' && c <= '9'); };
  return !name.empty() && letter(name[0]) && llvm::all_of(name, later);
}

class Importer {
 public:
  Importer(const json& graph, MLIRContext& context)
      : graph_(graph, "the top level"), context_(context), raw_(&context), build_(raw_, UnknownLoc::get(&context)) {}

  OwningOpRef<ModuleOp> run() {
    file_ = one_line(graph_.text("file"));  // comments of the emitted text name it
    graph_.text_or("summary", "");
    module_ = ModuleOp::create(FileLineColLoc::get(&context_, file_, 1, 1));
    make_kernel();
    const json& nodes = graph_.list("nodes");
    if (nodes.size() > max_nodes) graph_.damaged(fmt::format("has more than {} nodes", max_nodes));
    for (const json& node : nodes) add_node(node);
    const json& outputs = graph_.list("outputs");
    if (outputs.empty()) throw SpecError(file_ + ":1: error: the spec has no output; add s.output(name, value)");
    for (const json& output : outputs) add_output(output);
    verify_after(*module_, "import");
    return std::move(module_);
  }

 private:
  // ---- the kernel op ----
  void make_kernel() {
    int64_t chunk = graph_.integer("chunk", 1, max_extent), dim = graph_.integer("dim", 1, max_extent);
    SmallVector<AxisAttr> spec_axes;
    for (const json& entry : graph_.list("axes")) spec_axes.push_back(read_axis(entry, chunk, dim));
    llvm::stable_sort(spec_axes, [](AxisAttr a, AxisAttr b) { return a.getRole() < b.getRole(); });
    batch_ = free_name("b", spec_axes);
    chunk_ = free_name("n", spec_axes);
    SmallVector<Attribute> axes = {axis_attr(batch_, AxisRole::Batch, 0), axis_attr(chunk_, AxisRole::Chunk, 0)};
    SmallVector<StringRef> parallel = {batch_, chunk_};
    for (AxisAttr axis : spec_axes) {
      axes.push_back(axis);
      if (axis.getRole() == AxisRole::Head) parallel.push_back(axis.getName().getValue());
    }
    std::string name = graph_.text("name");  // of files too
    if (!is_identifier(name)) graph_.damaged("has the name \"" + name + "\", which is no identifier");
    raw_.setInsertionPointToEnd(module_->getBody());
    auto kernel = raw_.create<kda::KernelOp>(module_->getLoc(), raw_.getStringAttr(name), raw_.getStringAttr("fwd"),
                                             raw_.getArrayAttr(axes), raw_.getStrArrayAttr(parallel),
                                             raw_.getStrArrayAttr({}), read_options());
    raw_.setInsertionPointToStart(&kernel.getBody().emplaceBlock());
  }

  AxisAttr axis_attr(const std::string& name, AxisRole role, int64_t extent) {
    return AxisAttr::get(&context_, raw_.getStringAttr(name), role, extent);
  }

  AxisAttr read_axis(const json& entry, int64_t chunk, int64_t dim) {
    Fields axis(entry, "an axis");
    std::string name = axis.text("name"), role = axis.text("role");
    if (!is_identifier(name)) axis.damaged("has the name \"" + name + "\", which is no identifier");
    if (!axis_names_.insert(name).second) axis.damaged("is the second one called \"" + name + "\"");
    if (!roles_.insert(role).second) axis.damaged("is the second one with role \"" + role + "\"");
    if (role == "rows") return axis_attr(name, AxisRole::Rows, chunk);
    if (role == "head") return axis_attr(name, AxisRole::Head, 0);
    if (role == "feature") return axis_attr(name, AxisRole::Feature, dim);
    axis.damaged("has the unknown role \"" + role + "\"");
  }

  std::string free_name(std::string name, llvm::ArrayRef<AxisAttr> taken) {
    return llvm::any_of(taken, [&](AxisAttr axis) { return axis.getName().getValue() == name; }) ? "_" + name : name;
  }

  DictionaryAttr read_options() {
    NamedAttrList options;
    options.set("chunk", raw_.getI64IntegerAttr(graph_.integer("chunk", 1, max_extent)));
    options.set("dim", raw_.getI64IntegerAttr(graph_.integer("dim", 1, max_extent)));
    for (const json& entry : graph_.has("options") ? graph_.list("options") : json::array()) {
      Fields option(entry, "an option");
      std::string name = option.text("name");
      if (!is_identifier(name)) option.damaged("has the name \"" + name + "\", which is no identifier");
      if (entry.contains("value") && entry["value"].is_string())
        options.set(name, raw_.getStringAttr(option.text("value")));
      else
        options.set(name, raw_.getF64FloatAttr(option.number("value")));
    }
    return options.getDictionary(&context_);
  }

  // ---- places and names ----
  Location location(const Fields& fields, const std::string& name) {
    auto line = fields.has("line") ? fields.integer("line", 0, INT32_MAX) : 0;
    Location place = FileLineColLoc::get(&context_, one_line(fields.text_or("file", file_)), unsigned(line), 0);
    return name.empty() ? place : kda::named(place, name);
  }

  [[noreturn]] void refuse(const std::string& what) {
    throw SpecError(kda::spec_line(build_.location()) + ": error: " + what);
  }

  void check_name(const std::string& name) {
    if (!is_identifier(name))
      refuse("the name \"" + name +
             "\" is not an identifier that starts with a letter (the compiler's own start with _)");
  }

  Type read_storage(const Fields& fields) {
    Type storage = storage_type(&context_, fields.text("dtype"));
    if (!storage) fields.damaged("has the unknown dtype \"" + fields.text("dtype") + "\"");
    return storage;
  }

  // ---- nodes ----
  void add_node(const json& entry) {
    Fields node(entry, fmt::format("node {}", values_.size()));
    std::string op = node.text("op"), name = node.text_or("name", "");
    build_.set_location(location(node, name));
    if (!name.empty()) {
      check_name(name);
      if (!value_names_.emplace(name, values_.size()).second)
        refuse("two values are called '" + name + "'; rename one");
    }
    Value value;
    if (op == "input" || op == "param") {
      value = read_tensor(node, op, name);
    } else if (op == "constant") {
      value = read_constant(node);
    } else {
      SmallVector<Value> operands;
      if (node.has("operands"))
        for (const json& id : node.list("operands")) operands.push_back(value_of(id, node));
      try {
        value = import_op(build_, op, node, operands);
      } catch (const std::string& message) {
        refuse(message);
      }
      if (!name.empty()) value.getDefiningOp()->setLoc(build_.location());
    }
    check_axes(node, value);
    values_.push_back(value);
  }

  Value value_of(const json& id, const Fields& node) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= values_.size())
      node.damaged("refers to a node that is not before it");
    return values_[id.get<uint64_t>()];
  }

  /// The DSL and this importer infer axes independently; they must agree. A row's number is the same for every head,
  /// but a kernel works one head a block: in the IR all values of a tile have heads.
  void check_axes(const Fields& node, Value value) {
    if (!node.has("axes")) return;
    auto given = node.texts("axes");
    std::set<std::string> listed(given.begin(), given.end()), expected;
    const bool twice = listed.size() != given.size();
    if (AxisAttr heads = build_.kernel().axis(AxisRole::Head); heads && kda::section_of(value) == kda::Section::Tile)
      listed.insert(heads.getName().str());
    for (StringAttr axis : kda::type_of(value).getAxes())
      if (axis.getValue() != batch_ && axis.getValue() != chunk_) expected.insert(axis.getValue().str());
    if (twice || listed != expected) node.damaged("lists axes other than its operands give");
  }

  Value read_tensor(const Fields& node, const std::string& role, const std::string& name) {
    if (name.empty()) node.damaged("(" + role + ") has no name");
    SmallVector<std::string> axes;
    for (const auto& axis : node.texts("axes")) {
      if (!axis_names_.count(axis)) node.damaged("uses the unknown axis \"" + axis + "\"");
      axes.push_back(axis);
    }
    auto has = [&](AxisRole of) {
      return llvm::any_of(axes, [&](auto& axis) { return build_.kernel().axis(axis).getRole() == of; });
    };
    if (role == "param" && has(AxisRole::Rows)) refuse("param '" + name + "' varies along rows; make it an input");
    if (role == "input") {
      if (!has(AxisRole::Rows) || !has(AxisRole::Head))
        refuse("input '" + name + "' has no row for every token and head; make it a param");
      axes.append({batch_, chunk_});
    }
    auto bound = [&](const char* key) {
      auto value = node.optional_number(key);
      return value ? raw_.getF64FloatAttr(*value) : FloatAttr();
    };
    FloatAttr lower = bound("lower"), upper = bound("upper");
    if (lower && upper && !(lower.getValueAsDouble() <= upper.getValueAsDouble()))
      refuse("the bounds of '" + name + "' are empty; the lower one must not exceed the upper");
    bool optional = node.boolean_or("optional", false);
    return raw_.create<kda::InputOp>(build_.location(), build_.make_type(axes), name, role, read_storage(node), lower,
                                     upper, optional, optional ? bound("absent") : FloatAttr());
  }

  Value read_constant(const Fields& node) {
    kda::Scalar scalar = kda::Scalar::number(node.number("coefficient"));
    if (node.has("symbols"))
      for (const json& entry : node.list("symbols")) {
        Fields symbol(entry, "a symbol");
        std::string name = symbol.text("name");
        if (!is_identifier(name)) symbol.damaged("has the name \"" + name + "\", which is no identifier");
        int64_t power = symbol.integer("power", -1000, 1000);
        if (power == 0) continue;
        if (!scalar.symbols.emplace(name, kda::Scalar::Symbol{symbol.number("value"), power}).second)
          node.damaged("names the symbol " + name + " twice");
      }
    if (!std::isfinite(scalar.value())) refuse("the constant " + scalar.text() + " is not finite");
    return build_.constant(scalar);
  }

  // ---- outputs ----
  void add_output(const json& entry) {
    Fields output(entry, "an output");
    std::string name = output.text("name");
    build_.set_location(location(output, name));
    check_name(name);
    if (!output_names_.insert(name).second) refuse("two outputs are called '" + name + "'; rename one");
    const json& nodes = graph_.list("nodes");
    uint64_t id = uint64_t(output.integer("node", 0, int64_t(values_.size()) - 1));
    Value value = values_[id];
    if (kda::type_of(value).getElement().isInteger(1))
      refuse("output '" + name + "' is a truth value; use select to make a number of it");
    std::string op = nodes[id].at("op").get<std::string>();
    auto named_value = value_names_.find(name);
    bool tensor = op == "input" || op == "param";
    if (named_value != value_names_.end() && (named_value->second != id || tensor))
      refuse("output '" + name + "' has the name of another value; rename one");
    SmallVector<StringRef> axes = {batch_, chunk_};  // an output of parameters alone is written for every chunk
    for (StringAttr axis : kda::type_of(value).getAxes())
      if (axis.getValue() != batch_ && axis.getValue() != chunk_) axes.push_back(axis.getValue());
    auto op_created =
        raw_.create<kda::OutputOp>(build_.location(), value, name, "output", read_storage(output),
                                   raw_.getStrArrayAttr(axes), FloatAttr(), ArrayAttr(), 0, StringAttr(), StringAttr());
    if (!tensor && op != "constant" && !kda::user_name(value) && !value_names_.count(name))
      value.getDefiningOp()->setLoc(kda::named(value.getLoc(), name));  // a nameless value is called like its output
    if (output.has("unit")) set_unit(op_created, output, nodes);
    if (output.has("anchor")) set_anchor(op_created, output);
  }

  void set_unit(kda::OutputOp output, const Fields& fields, const json& nodes) {
    uint64_t id = uint64_t(fields.integer("unit", 0, int64_t(nodes.size()) - 1));
    auto unit = kda::constant_scalar(values_[id]);
    if (!unit) fields.damaged("has a \"unit\" that is not a constant");
    if (unit->value() == 0.0)
      refuse("the cotangent unit of '" + output.getTensor().str() + "' is 0; the caller hands over cotangent/unit");
    output.setUnitCoefficientAttr(raw_.getF64FloatAttr(unit->coefficient));
    output.setUnitSymbolsAttr(unit->symbols_attr(&context_));
  }

  void set_anchor(kda::OutputOp output, const Fields& fields) {
    std::string kind = fields.text("anchor");
    if (kind != "none" && kind != "static" && kind != "subchunk")
      fields.damaged("has the unknown anchor \"" + kind + "\"");
    if (kind != "none") output.setAnchorKindAttr(raw_.getStringAttr(kind));
  }

  Fields graph_;
  MLIRContext& context_;
  OpBuilder raw_;
  Builder build_;
  OwningOpRef<ModuleOp> module_;
  std::string file_, batch_, chunk_;
  std::set<std::string> axis_names_, roles_, output_names_;
  std::map<std::string, size_t> value_names_;
  SmallVector<Value> values_;
};

}  // namespace

OwningOpRef<ModuleOp> import_graph(std::string_view bytes, MLIRContext& context) {
  context.getOrLoadDialect<kda::KdaDialect>();
  json graph = json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (graph.is_discarded()) throw UsageError("damaged graph: the bytes are not JSON; make the graph again");
  if (Fields(graph, "the top level").integer("schema", 0, INT32_MAX) != 1)
    throw UsageError("the graph has another schema than 1; build the spec with this version's headers");
  return Importer(graph, context).run();
}

kda::KernelOp only_kernel(ModuleOp module) {
  auto kernels = llvm::to_vector(module.getOps<kda::KernelOp>());
  if (kernels.size() != 1) throw KdagenBug(fmt::format("expected one kernel, found {}", kernels.size()));
  return kernels[0];
}

}  // namespace kdagen
