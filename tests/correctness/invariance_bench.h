// SPDX-License-Identifier: Apache-2.0
// One pass of a shipped spec as text on the emulator, on inputs that are rearranged between runs.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/backend.h"
#include "tools/check/bits.h"
#include "tools/check/cotangents.h"
#include "tools/check/problem.h"
#include "tools/check/subject.h"
#include "tools/spec_source.h"

namespace kdagen::testing {

/// For each new row (of B*T), tile, head, column: the old one. Empty: unchanged.
struct Places {
  std::vector<int64_t> rows, tiles, heads, columns;
};

class InvarianceBench {
 public:
  InvarianceBench(const std::string& spec, Direction direction, const std::string& schedule = "default",
                  std::map<std::string, std::string> settings = {})
      : spec_(spec) {
    settings.insert({{"dim", "32"}, {"chunk", "16"}});
    CompileOptions options = take_compile_options(settings);
    const std::string graph = graph_bytes(spec, settings);
    forward_ = std::make_unique<Compilation>(graph, Direction::fwd, options);
    pass_ = std::make_unique<Compilation>(graph, direction, options);
    const emit::Emitted emitted = emit_kernel_as(*pass_, schedule, "sm_90");
    subject_ = emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1);
  }

  Compilation& pass() { return *pass_; }
  Problem problem(const Shape& shape) { return problem_of(pass_->graph(), forward_->kernel(Stage::kda), shape); }

  std::vector<std::string> regimes() const { return find_workload(spec_).regimes(); }

  /// Inputs of a regime (of the workload's first without a name), and noise as cotangents.
  Tensors draw(const Shape& shape, const std::string& regime = "") {
    constexpr uint64_t seed = 1;
    const Problem problem = this->problem(shape);
    const Workload& workload = find_workload(spec_);
    Tensors all = workload.inputs(problem, regime.empty() ? regimes().front() : regime, seed);
    const kda::KernelOp forward = forward_->kernel(Stage::kda);
    const Tensors exponents = tensors_of(
        evaluator::output_exponents(forward, arrays_of(all), instance_of(problem.shape)), forward, problem.shape);
    ConsumerOptions consumer;
    consumer.seed = seed;
    consumer.exponents = &exponents;
    if (pass_->direction() == Direction::bwd)
      for (auto& [name, tensor] : store_cotangents(generic_workload().upstream(problem, all, consumer),
                                                   pass_->kernel(Stage::derived), problem))
        all[name] = tensor;
    return all;
  }

  Tensors run(const Tensors& inputs, const Shape& shape) { return subject_->run(inputs, problem(shape).shape); }

  /// The running error analysis: how far each output may be from the exact one before it is stored.
  evaluator::Arrays errors(const Tensors& inputs, const Shape& shape) {
    evaluator::EvaluateOptions options;
    options.running_error = true;
    options.obey_rounds = true;
    return evaluator::evaluate(pass_->kernel(Stage::rewritten), arrays_of(inputs), instance_of(problem(shape).shape),
                               options)
        .error_bounds;
  }

  /// Axes of an input, an output, or of a gradient or cotangent of one.
  Declaration declaration(const std::string& name, const Shape& shape) {
    const Problem problem = this->problem(shape);
    for (const auto* list : {&problem.inputs, &problem.outputs})
      for (const Declaration& known : *list)
        if (known.name == name || "d" + known.name == name) return known;
    throw KdagenBug("no tensor is called " + name);
  }

  /// What lies at `places` of tensors of the old shape.
  Tensors taken(const Tensors& tensors, Shape old_shape, Shape shape, const Places& places) {
    old_shape = problem(old_shape).shape, shape = problem(shape).shape;
    Tensors result;
    for (const auto& [name, tensor] : tensors) {
      const Declaration axes = declaration(name, shape);
      const Extents from(axes, old_shape), to(axes, shape);
      const std::vector<int64_t>& outer = axes.has(AxisRole::rows)    ? places.rows
                                          : axes.has(AxisRole::chunk) ? places.tiles
                                                                      : empty_;
      HostTensor& out = result[name] = {name, tensor.dtype, dense_shape(axes, shape), {}};
      for (int64_t o = 0; o < to.outer; ++o)
        for (int64_t h = 0; h < to.heads; ++h)
          for (int64_t d = 0; d < to.columns; ++d) {
            const int64_t row = at(outer, o),
                          head = from.heads == 1 && !axes.has(AxisRole::head) ? 0 : at(places.heads, h);
            const int64_t column = axes.has(AxisRole::feature) ? at(places.columns, d) : 0;
            const int64_t place = (row * from.heads + head) * from.columns + column;
            const bool there = row >= 0 && place < int64_t(tensor.values.size());
            out.values.push_back(there ? tensor.values[place] : 0);
          }
    }
    return result;
  }

 private:
  struct Extents {
    Extents(const Declaration& axes, const Shape& shape)
        : outer(axes.has(AxisRole::rows)    ? shape.rows()
                : axes.has(AxisRole::chunk) ? shape.capacity()
                                            : 1),
          heads(axes.has(AxisRole::head) ? shape.heads : 1),
          columns(axes.has(AxisRole::feature) ? shape.dim : 1) {}
    int64_t outer, heads, columns;
  };
  /// -1: nothing lies there.
  static int64_t at(const std::vector<int64_t>& places, int64_t i) {
    return places.empty() ? i : i < int64_t(places.size()) ? places[i] : -1;
  }

  std::string spec_;
  std::unique_ptr<Compilation> forward_, pass_;
  std::unique_ptr<Subject> subject_;
  const std::vector<int64_t> empty_;
};

}  // namespace kdagen::testing
