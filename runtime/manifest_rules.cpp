// SPDX-License-Identifier: Apache-2.0
// What a well-typed manifest must fulfil besides: names refer to something, kinds fit shapes, launches are possible.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/manifest.h"
#include "runtime/problem.h"

namespace kdagen::runtime {
namespace {

class Rules {
 public:
  Rules(const Manifest& manifest, std::string_view source) : manifest_(manifest), source_(source) {}

  void check() const {
    require(manifest_.schema == manifest_schema, "schema", "unknown schema");
    require(manifest_.pass == "fwd" || manifest_.pass == "bwd", "pass", "expected fwd or bwd");
    require(manifest_.options.is_object(), "options", "expected an object");
    require(manifest_.chunk >= 1 && manifest_.dim >= 1 && manifest_.tiles_per_segment >= 1, "chunk",
            "chunk, dim and tiles_per_segment must be at least 1");
    unique(manifest_.axes, "axes");
    unique(manifest_.tensors, "tensors");
    unique(manifest_.workspace, "workspace");
    unique(manifest_.arguments, "arguments");
    for (std::size_t i = 0; i < manifest_.axes.size(); ++i) check_axis(i);
    for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) check_tensor(i);
    for (std::size_t i = 0; i < manifest_.workspace.size(); ++i) check_workspace(i);
    for (std::size_t i = 0; i < manifest_.arguments.size(); ++i) check_argument(i);
    require(!manifest_.launches.empty(), "launches", "expected at least one launch");
    for (std::size_t i = 0; i < manifest_.launches.size(); ++i) check_launch(i);
    // The parameter space of a launch is 32764 bytes.
    require(argument_words(manifest_) <= 4095, "arguments", "more than 4095 words");
  }

 private:
  void require(bool holds, std::string_view field, std::string_view problem) const {
    if (!holds) throw UsageError(fmt::format("{}.{}: {}", source_, field, problem));
  }

  template <class Item>
  void unique(const std::vector<Item>& items, std::string_view list) const {
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < items.size(); ++i)
      require(seen.insert(items[i].name).second, fmt::format("{}[{}].name", list, i),
              fmt::format("\"{}\" is used twice", items[i].name));
  }

  void check_axis(std::size_t i) const {
    for (std::size_t j = 0; j < i; ++j)
      require(manifest_.axes[j].role != manifest_.axes[i].role, fmt::format("axes[{}].role", i),
              fmt::format("\"{}\" already has the role {}", manifest_.axes[j].name, name_of(manifest_.axes[i].role)));
  }

  void check_tensor(std::size_t i) const {
    const TensorInfo& tensor = manifest_.tensors[i];
    const std::string where = fmt::format("tensors[{}]", i);
    std::set<AxisRole> roles;
    for (const std::string& name : tensor.axes) {
      const bool implied = name == "b" || name == "n";
      const bool known = std::any_of(manifest_.axes.begin(), manifest_.axes.end(),
                                     [&](const AxisInfo& axis) { return axis.name == name; });
      require(known || implied, where + ".axes", fmt::format("no axis is named \"{}\"", name));
      require(roles.insert(axis_role(manifest_, name)).second, where + ".axes",
              fmt::format("\"{}\" appears twice", name));
    }
    const bool parameter = tensor.role == TensorRole::param || tensor.role == TensorRole::param_gradient;
    require(parameter == (tensor.layout == Layout::param), where + ".layout",
            "the layout param goes with the roles param and param_gradient only");
    require(
        !parameter || (!roles.count(AxisRole::rows) && !roles.count(AxisRole::batch) && !roles.count(AxisRole::chunk)),
        where + ".axes", "a parameter has no rows, batch or chunk axis");
    require(tensor.dtype != DType::f64, where + ".dtype", "f64 is not a type of emitted kernels");
    const bool written = tensor.role != TensorRole::input && tensor.role != TensorRole::param &&
                         tensor.role != TensorRole::cotangent && tensor.role != TensorRole::residual;
    const bool either = tensor.role == TensorRole::residual;
    require(either || written == (tensor.direction == Direction::out), where + ".direction",
            fmt::format("\"{}\" does not fit the role {}", name_of(tensor.direction), name_of(tensor.role)));
    if (!tensor.may_alias.empty()) {
      const TensorInfo* input = manifest_.find_tensor(tensor.may_alias);
      require(input && input->direction == Direction::in && tensor.direction == Direction::out &&
                  input->dtype == tensor.dtype && input->axes == tensor.axes && input->layout == tensor.layout,
              where + ".may_alias",
              fmt::format("\"{}\" is no input of the same dtype, axes and layout", tensor.may_alias));
    }
    const bool subchunks = tensor.subchunk_rows > 0;
    require(!subchunks ||
                (roles.count(AxisRole::rows) && tensor.direction == Direction::out && tensor.layout != Layout::tile),
            where + ".subchunk_rows", "only a written tensor with rows has a row of each sub-chunk");
    if (!tensor.anchor_tensor.empty()) {
      const TensorInfo* anchors = manifest_.find_tensor(tensor.anchor_tensor);
      require(anchors && anchors->subchunk_rows > 0 && anchors->dtype == DType::i32, where + ".anchor_tensor",
              fmt::format("\"{}\" is no i32 tensor with a row of each sub-chunk", tensor.anchor_tensor));
      require(tensor.anchor_sign == 1 || tensor.anchor_sign == -1, where + ".anchor_sign", "expected 1 or -1");
    }
    const int bytes = tensor.vector_bytes;
    require(bytes >= 1 && bytes <= 128 && (bytes & (bytes - 1)) == 0, where + ".vector_bytes",
            "expected a power of two from 1 to 128");
  }

  void check_product(const Product& product, const std::string& where, bool in_grid) const {
    require(!product.empty(), where, "expected at least one factor");
    for (const std::string& factor : product)
      require(is_size_symbol(factor, in_grid), where, fmt::format("\"{}\" is no size", factor));
  }

  void check_workspace(std::size_t i) const {
    check_product(manifest_.workspace[i].elements, fmt::format("workspace[{}].elements", i), false);
  }

  void check_argument(std::size_t i) const {
    const ArgumentInfo& argument = manifest_.arguments[i];
    const std::string where = fmt::format("arguments[{}]", i);
    switch (argument.kind) {
      case ArgumentKind::cu_seqlens:
        return;
      case ArgumentKind::workspace:
        return require(manifest_.find_workspace(argument.name), where + ".name",
                       fmt::format("no workspace is named \"{}\"", argument.name));
      case ArgumentKind::size:
        return require(is_size_symbol(argument.size, false), where + ".size",
                       fmt::format("\"{}\" is no size", argument.size));
      case ArgumentKind::rows:
      case ArgumentKind::tile:
      case ArgumentKind::pointer:
      case ArgumentKind::tensor_map:
        break;
    }
    const TensorInfo* tensor = manifest_.find_tensor(argument.tensor);
    require(tensor, where + ".tensor", fmt::format("no tensor is named \"{}\"", argument.tensor));
    if (argument.kind == ArgumentKind::tensor_map) return check_tensor_map(*tensor, argument.rows, i, where);
    const bool rows = is_row_tensor(manifest_, *tensor);
    ArgumentKind fitting = rows && tensor->layout != Layout::tile ? ArgumentKind::rows : ArgumentKind::tile;
    if (tensor->layout == Layout::param) fitting = ArgumentKind::pointer;
    require(argument.kind == fitting, where + ".kind",
            fmt::format("\"{}\" does not fit the tensor \"{}\", expected \"{}\"", name_of(argument.kind), tensor->name,
                        name_of(fitting)));
  }

  // A map is 64-byte aligned in the argument struct, describes rows of 16-byte pieces, and its boxes have at most 256
  // elements in each dimension.
  void check_tensor_map(const TensorInfo& tensor, int rows, std::size_t i, const std::string& where) const {
    const bool first = i == 0 || manifest_.arguments[i - 1].kind == ArgumentKind::tensor_map;
    require(first, where + ".kind", "tensor maps come before all other arguments");
    const bool features = std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const std::string& axis) {
      return axis_role(manifest_, axis) == AxisRole::feature;
    });
    require(features && tensor.layout != Layout::param && !tensor.optional && tensor.direction == Direction::in,
            where + ".tensor", fmt::format("\"{}\" is no required input with rows of features", tensor.name));
    require(tensor.vector_bytes % 16 == 0 && manifest_.dim * size_of(tensor.dtype) % 16 == 0, where + ".tensor",
            fmt::format("the rows of \"{}\" are no multiples of 16 bytes", tensor.name));
    require(manifest_.dim <= 256 && rows >= 1 && rows <= 256, where + ".rows", "a box has 1 to 256 rows and columns");
  }

  void check_launch(std::size_t i) const {
    const LaunchInfo& launch = manifest_.launches[i];
    const std::string where = fmt::format("launches[{}]", i);
    require(!launch.entry.empty(), where + ".entry", "expected a name");
    require(launch.grid.size() >= 1 && launch.grid.size() <= 3, where + ".grid", "expected 1 to 3 products");
    for (const Product& product : launch.grid) check_product(product, where + ".grid", true);
    require(launch.block >= 1 && launch.block <= 1024, where + ".block", "expected 1 to 1024 threads");
    require(launch.tiles_per_block >= 1, where + ".tiles_per_block", "expected at least 1");
    require(launch.shared_bytes >= 0, where + ".shared_bytes", "expected at least 0");
  }

  const Manifest& manifest_;
  std::string_view source_;
};

}  // namespace

void validate(const Manifest& manifest, std::string_view source) { Rules(manifest, source).check(); }

}  // namespace kdagen::runtime
