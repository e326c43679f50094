// SPDX-License-Identifier: Apache-2.0
// A spec under some options, compiled for the emulator once, and calls of it on inputs that a test fills by formula.
#pragma once
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/kernel.h"
#include "tests/common/draws.h"
#include "tests/common/spec_graph.h"
#include "tools/execute/launch.h"

namespace kdagen::testing {

using Settings = std::map<std::string, std::string>;  // as given with --set

inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
inline const Settings float_tensors{{"dtype", "f32"}, {"out", "f32"}, {"grads", "f32"}};

inline Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings[name] = value;
  return settings;
}

enum class Pass { fwd, bwd };

/// A spec's graph as Spec::graph() writes it.
struct GraphBytes {
  std::string bytes;
};

/// Both passes of a spec; each is compiled when it first runs.
class EmulatedProgram {
 public:
  /// A shipped spec.
  EmulatedProgram(const std::string& name, Settings settings);
  /// A spec written in the test: `body` gets the spec and its axes t, h, d.
  EmulatedProgram(const test::Body& body, Settings settings = {});
  /// `settings`: of the compiler; the spec's have gone into its graph.
  EmulatedProgram(GraphBytes graph, Settings settings);
  ~EmulatedProgram();
  /// Kernels that are made from now on are not watched: for large calls.
  void without_checks();

  /// Errors of the compiler.
  runtime::Kernel& kernel(Pass pass);
  /// Text and manifest, made anew.
  std::pair<std::string, runtime::Manifest> emit(Pass pass, const std::string& arch = "sm_90") const;
  const std::string& graph() const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

/// Fixed length, or packed when `seqlens` has entries: then `dead_rows` rows follow the last sequence.
struct CallSizes {
  int64_t batch = 1, tokens = 16, heads = 1;
  std::vector<int64_t> seqlens = {};
  int64_t dead_rows = 0;
  runtime::OffsetType offsets = runtime::OffsetType::i32;
};

/// Where an element stands: `row` counts rows of [B*T], tiles, or the sub-chunks of all tiles; h and d are 0 where the
/// tensor lacks the axis.
struct At {
  int64_t row, h, d;
};
using Fill = std::function<double(const At&)>;

class Call {
 public:
  Call(EmulatedProgram& program, CallSizes sizes) : program_(program), sizes_(std::move(sizes)) {
    problem_.batch = problem_.sequences = sizes_.batch, problem_.tokens = sizes_.tokens, problem_.heads = sizes_.heads;
    if (sizes_.seqlens.empty()) return;
    wide_.push_back(0);
    for (int64_t length : sizes_.seqlens) wide_.push_back(wide_.back() + length);
    narrow_.assign(wide_.begin(), wide_.end());
    problem_.tokens = wide_.back() + sizes_.dead_rows;
    problem_.sequences = static_cast<int64_t>(sizes_.seqlens.size());
    problem_.offsets = sizes_.offsets;
    problem_.cu_seqlens =
        sizes_.offsets == runtime::OffsetType::i64 ? static_cast<void*>(wide_.data()) : narrow_.data();
  }
  Call(const Call&) = delete;

  const runtime::Problem& problem() const { return problem_; }
  int64_t live_rows() const { return problem_.packed() ? wide_.back() : problem_.batch * problem_.tokens; }

  /// The input of that name in both passes; rows of no sequence hold NaN, unless `dead` says what they hold.
  Call& set(const std::string& name, Fill fill, double dead = nan_value) {
    fills_[name] = std::move(fill), dead_[name] = dead;
    return *this;
  }
  Call& set(const std::string& name, double value) {
    return set(name, [value](const At&) { return value; });
  }
  /// What dead rows hold in inputs that are not set.
  Call& dead_rows(double value) {
    default_dead_ = value;
    return *this;
  }

  /// Fills inputs (unset ones with numbers drawn by their name: uniform in [-1, 1), parameters in [-1/4, 1/4)), outputs
  /// with NaN, and runs the pass. Inputs of the other pass stay as they are.
  Call& run(Pass pass, unsigned order_seed = 1) {
    prepare(pass);
    TensorBuffers buffers;
    for (const runtime::TensorInfo& info : kernel(pass).manifest().tensors)
      if (tensors_.count(info.name)) buffers[info.name] = tensors_.at(info.name);
    runtime::LaunchOptions options;
    options.order_seed = order_seed;
    launch_on_host(kernel(pass), buffers, problem_, on_emulator, options);
    for (auto& [name, tensor] : buffers) tensors_[name] = std::move(tensor);
    return *this;
  }
  Call& forward(unsigned order_seed = 1) { return run(Pass::fwd, order_seed); }
  Call& backward(unsigned order_seed = 1) { return run(Pass::bwd, order_seed); }

  /// Tensors of the pass in memory, without running it.
  void prepare(Pass pass) {
    for (const runtime::TensorInfo& info : kernel(pass).manifest().tensors) {
      infos_[info.name] = &info, manifests_[info.name] = &kernel(pass).manifest();
      const bool input = info.direction == runtime::Direction::in;
      if (input && info.optional && !fills_.count(info.name)) continue;
      runtime::HostTensor tensor(info.dtype, runtime::tensor_shape(kernel(pass).manifest(), info, problem_));
      Draws draws(std::hash<std::string>()(info.name));
      const double size = info.role == runtime::TensorRole::param ? 0.25 : 1;
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        const double drawn = draws.uniform(-size, size);
        if (!input)
          tensor.set(i, nan_value);
        else if (is_dead(info.name, i, tensor.shape))
          tensor.set(i, dead_.count(info.name) ? dead_[info.name] : default_dead_);
        else if (auto found = fills_.find(info.name); found != fills_.end())
          tensor.set(i, found->second(at(info.name, i, tensor.shape)));
        else
          tensor.set(i, drawn);
      }
      tensors_[info.name] = std::move(tensor);
    }
  }

  bool has(const std::string& name) const { return tensors_.count(name); }
  const runtime::HostTensor& tensor(const std::string& name) const { return tensors_.at(name); }
  runtime::HostTensor& tensor(const std::string& name) { return tensors_.at(name); }
  /// A value as stored: inputs after rounding to their dtype.
  double operator()(const std::string& name, int64_t row = 0, int64_t h = 0, int64_t d = 0) const {
    return tensors_.at(name).get(element(name, {row, h, d}));
  }
  const std::map<std::string, runtime::HostTensor>& tensors() const { return tensors_; }
  runtime::Kernel& kernel(Pass pass) { return program_.kernel(pass); }
  std::vector<std::string> outputs(Pass pass) {
    std::vector<std::string> names;
    for (const runtime::TensorInfo& info : kernel(pass).manifest().tensors)
      if (info.direction == runtime::Direction::out) names.push_back(info.name);
    return names;
  }

 private:
  std::vector<runtime::DimRole> roles(const std::string& name) const {
    return runtime::dimensions(*manifests_.at(name), *infos_.at(name));
  }
  At at(const std::string& name, int64_t i, const runtime::Dims& shape) const {
    const std::vector<runtime::DimRole> roles = this->roles(name);
    At where{0, 0, 0};
    int64_t batch = 0, parts = 1, part = 0;
    for (size_t k = roles.size(); k-- > 0; i /= shape[k]) {
      const int64_t index = i % shape[k];
      if (roles[k] == runtime::DimRole::batch) batch = index;
      if (roles[k] == runtime::DimRole::tokens || roles[k] == runtime::DimRole::tile) where.row = index;
      if (roles[k] == runtime::DimRole::subchunk) parts = shape[k], part = index;
      if (roles[k] == runtime::DimRole::head) where.h = index;
      if (roles[k] == runtime::DimRole::feature) where.d = index;
    }
    where.row = (where.row + batch * problem_.tokens) * parts + part;
    return where;
  }
  int64_t element(const std::string& name, const At& where) const {
    const std::vector<runtime::DimRole> roles = this->roles(name);
    const runtime::Dims& shape = tensors_.at(name).shape;
    int64_t index = 0, parts = 1;
    for (size_t k = 0; k < roles.size(); ++k)
      if (roles[k] == runtime::DimRole::subchunk) parts = shape[k];
    for (size_t k = 0; k < roles.size(); ++k) {
      index *= shape[k];
      if (roles[k] == runtime::DimRole::batch) index += where.row / problem_.tokens;
      if (roles[k] == runtime::DimRole::tokens) index += where.row % problem_.tokens;
      if (roles[k] == runtime::DimRole::tile) index += where.row / parts;
      if (roles[k] == runtime::DimRole::subchunk) index += where.row % parts;
      if (roles[k] == runtime::DimRole::head) index += where.h;
      if (roles[k] == runtime::DimRole::feature) index += where.d;
    }
    return index;
  }
  bool is_dead(const std::string& name, int64_t i, const runtime::Dims& shape) const {
    if (!problem_.packed() || !runtime::is_row_tensor(*manifests_.at(name), *infos_.at(name))) return false;
    return at(name, i, shape).row >= wide_.back();
  }

  EmulatedProgram& program_;
  CallSizes sizes_;
  runtime::Problem problem_;
  std::vector<int64_t> wide_;
  std::vector<int32_t> narrow_;
  std::map<std::string, Fill> fills_;
  std::map<std::string, double> dead_;
  double default_dead_ = nan_value;
  std::map<std::string, runtime::HostTensor> tensors_;
  std::map<std::string, const runtime::TensorInfo*> infos_;
  std::map<std::string, const runtime::Manifest*> manifests_;
};

/// sqrt(mean (x - y)^2 / mean y^2); infinite when anything is not finite, the sizes differ or there is nothing.
inline double relative_rms(const std::vector<double>& x, const std::vector<double>& y) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < y.size() && x.size() == y.size(); ++i)
    difference += std::pow(x[i] - y[i], 2), size += y[i] * y[i];
  if (x.size() != y.size() || y.empty() || !std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

inline std::vector<double> values_of(const runtime::HostTensor& tensor) {
  std::vector<double> values(tensor.elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.get(static_cast<int64_t>(i));
  return values;
}

}  // namespace kdagen::testing
