// SPDX-License-Identifier: Apache-2.0
#include "tools/check/check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kdagen/error.h>

#include "tools/check/anchors.h"
#include "tools/check/bits.h"
#include "tools/check/comparison.h"
#include "tools/check/cotangents.h"
#include "tools/check/derivative.h"
#include "tools/check/evaluation.h"
#include "tools/check/problem.h"

namespace kdagen {
namespace {

class Checker {
 public:
  explicit Checker(const CheckRequest& request)
      : request_(request),
        forward_(request.graph, Direction::fwd, request.options),
        backward_(request.graph, Direction::bwd, request.options),
        problem_(problem_of(request.graph, forward_.kernel(Stage::kda), request.shape)),
        workload_(find_workload(problem_.spec)),
        anchors_(forward_.kernel(Stage::kda), problem_.shape) {
    problem_.shape.validate();
    report_.spec = problem_.spec;
    report_.on = request.on;
    if (!request_.forward && !request_.backward)
      throw UsageError("check: nothing to check; pass --pass fwd, bwd or both");
    choose_regimes();
    if (request_.backward) choose_pipeline();
    if (request_.forward || needs_forward_outputs()) forward_subject_ = make_subject(forward_);
    if (request_.forward) forward_bits_ = make_bits(forward_);
    if (request_.backward) make_backward_subjects();
    if (request_.backward && anchors_.any()) {
      CompileOptions options = request_.options;
      options.taps = anchors_.names();
      anchoring_ = std::make_unique<Compilation>(request_.graph, Direction::bwd, options);
    }
  }

  CheckReport run() {
    for (const std::string& regime : regimes_) {
      check_regime(regime);
      if (request_.backward && regime == workload_.regimes().front()) check_derivative(regime);
    }
    strange_ = true;
    if (!request_.regime) check_regime(regimes_.front());
    return std::move(report_);
  }

 private:
  // ---- set up ------------------------------------------------------------------------------------------------------
  void choose_regimes() {
    regimes_ = workload_.regimes();
    if (!request_.regime) return;
    if (std::find(regimes_.begin(), regimes_.end(), *request_.regime) == regimes_.end())
      throw UsageError(fmt::format("spec {} has no regime '{}'; it has: {}", problem_.spec, *request_.regime,
                                   fmt::join(regimes_, ", ")));
    regimes_ = {*request_.regime};
  }

  void choose_pipeline() {
    rounded_ = backward_.rounded_operands();
    const std::string pipeline = request_.pipeline.value_or(rounded_ && workload_.has_consumer() ? "bf16" : "exact");
    if (pipeline != "exact" && pipeline != "bf16") throw UsageError("--pipeline " + pipeline + ": pass exact or bf16");
    if (pipeline == "bf16" && !workload_.has_consumer())
      throw UsageError("--pipeline bf16: spec " + problem_.spec + " declares no consumer; pass exact");
    consumer_.bf16_operands = pipeline == "bf16";
    consumer_.do_scale = request_.do_scale;
    consumer_.seed = request_.seed;
    consumer_.storage = cotangent_storage(problem_, request_.options);
  }

  std::unique_ptr<Subject> make_subject(Compilation& compilation) {
    if (request_.on == "cpu") return evaluated_subject(compilation.kernel(Stage::rewritten));
    if (!request_.emit) throw KdagenBug("check: nothing runs emitted text on " + request_.on);
    return request_.emit(compilation);
  }

  /// The emulator's arithmetic is the evaluator's; a GPU approximates.
  std::unique_ptr<Subject> make_bits(Compilation& compilation) const {
    return request_.on == "emulator" ? spelled_out_subject(compilation) : nullptr;
  }

  /// A text writes its gradients in one storage; the float32 evaluator serves both.
  void make_backward_subjects() {
    if (request_.on == "cpu" || request_.options.grads == "f32") {
      f32_subject_ = make_subject(backward_);
      f32_bits_ = make_bits(backward_);
      return;
    }
    stored_subject_ = make_subject(backward_);
    stored_bits_ = make_bits(backward_);
    if (request_.given_text) return;
    CompileOptions options = request_.options;
    options.grads = "f32";
    f32_backward_ = std::make_unique<Compilation>(request_.graph, Direction::bwd, options);
    f32_subject_ = make_subject(*f32_backward_);
    f32_bits_ = make_bits(*f32_backward_);
  }

  bool needs_forward_outputs() const {
    return request_.backward && (consumer_.bf16_operands || anchors_.any() || !request_.options.save.empty());
  }

  /// A text that breaks the rules of the machine writes nothing: every output is then absent.
  Tensors outputs_of(Subject& subject, const Tensors& inputs) {
    failure_.clear();
    try {
      return subject.run(inputs, problem_.shape);
    } catch (const CheckError& error) {
      failure_ = error.what();
      return {};
    }
  }

  void add_run(CheckRun run) {
    run.failure = failure_;
    report_.runs.push_back(std::move(run));
  }

  void make_strange(const Declaration& input, HostTensor& tensor) const {
    shrink_rows(input, problem_.shape, tensor);
    const std::vector<std::string> directions = workload_.directions();
    if (std::find(directions.begin(), directions.end(), input.name) != directions.end())
      grow_rows(input, problem_.shape, tensor);
  }

  void check_regime(const std::string& regime) {
    inputs_ = workload_.inputs(problem_, regime, request_.seed);
    for (const Declaration& input : problem_.inputs) {
      if (input.optional && request_.leave_out_optional) {
        inputs_.erase(input.name);
        continue;
      }
      if (strange_) make_strange(input, inputs_.at(input.name));
      poison_unread(input, problem_.shape, inputs_.at(input.name));
    }
    forward_outputs_.clear();
    if (forward_subject_) forward_outputs_ = outputs_of(*forward_subject_, inputs_);
    if (request_.forward) check_forward(regime);
    if (request_.backward) check_backward(regime);
  }

  /// `actual`: what the text made of `inputs`. A faulty text has failed already.
  void check_bits(const std::string& direction, const std::string& regime, const std::string& grads,
                  Subject* spelled_out, const Tensors& inputs, const Tensors& actual) {
    if (!spelled_out || !failure_.empty()) return;
    CheckRun run = new_run(direction, regime, grads, "text against its own operations in float32, bit for bit");
    run.outputs = compare_bits(spelled_out->run(inputs, problem_.shape), actual);
    report_.runs.push_back(std::move(run));
  }

  // ---- one pass ----------------------------------------------------------------------------------------------------
  CheckRun new_run(const std::string& direction, const std::string& regime, const std::string& grads,
                   const std::string& comparison) const {
    CheckRun run;
    run.direction = direction;
    run.regime = regime;
    run.grads = grads;
    run.operands = rounded_ ? "rounded" : "exact";
    run.pipeline = consumer_.bf16_operands ? "bf16" : "exact";
    run.do_scale = request_.do_scale;
    run.oracle = "kernel";
    run.comparison = comparison + (strange_ ? ", some rows near zero or of huge norm, noise as cotangents" : "");
    return run;
  }

  std::string subject_name() const { return request_.on == "cpu" ? "float32" : "text"; }

  /// Rounds to the declared storage of the kernel's outputs; nothing changes where the subject has done so already.
  Tensors stored(Tensors tensors) const {
    for (auto& [name, tensor] : tensors)
      if (tensor.dtype != "i8" && tensor.dtype != "i32") tensor = stored_as(tensor, tensor.dtype);
    return tensors;
  }

  /// float64 against float64. Both may lose digits where the program amplifies rounding, so both analyses count.
  void compare_f64(const std::string& direction, const std::string& regime, kda::KernelOp kernel, Evaluation rewritten,
                   Evaluation unrewritten) {
    for (auto& [name, array] : unrewritten.errors) {
      auto found = rewritten.errors.find(name);
      for (size_t i = 0; found != rewritten.errors.end() && i < array.values.size(); ++i)
        array.values[i] += found->second.values.at(i);
    }
    const Reference reference{
        tensors_of(std::move(unrewritten.tensors), kernel, problem_.shape), std::move(unrewritten.errors), {}, {}};
    Tensors actual = tensors_of(std::move(rewritten.tensors), kernel, problem_.shape);
    if (direction == "fwd") anchors_.restate_outputs(actual, reference.tensors);
    ComparisonOptions options;
    options.factor = f64_factor;
    options.storage = "f64";
    CheckRun run = new_run(direction, regime, "f64", "float64 rewritten against unrewritten");
    run.outputs = compare_outputs(problem_, workload_, reference, actual, kernel, options);
    report_.runs.push_back(std::move(run));
  }

  void check_forward(const std::string& regime) {
    const Shape& shape = problem_.shape;
    const evaluator::Arrays inputs = arrays_of(inputs_);
    kda::KernelOp rewritten = forward_.kernel(Stage::rewritten), unrewritten = forward_.kernel(Stage::derived);
    Evaluation rewritten_f64 = evaluate_f64(rewritten, inputs, shape, true);
    Evaluation unrewritten_f64 = evaluate_f64(unrewritten, inputs, shape, true);
    const Reference reference{
        tensors_of(reference_of(rewritten_f64, unrewritten_f64, error_factor), unrewritten, shape),
        rewritten_f64.errors,
        {},
        {}};
    compare_f64("fwd", regime, rewritten, std::move(rewritten_f64), std::move(unrewritten_f64));

    ComparisonOptions options;
    options.regime = regime;
    options.factor = error_factor;
    CheckRun run = new_run("fwd", regime, request_.options.grads, subject_name() + " against float64");
    Tensors actual = stored(forward_outputs_);
    anchors_.restate_outputs(actual, reference.tensors);
    run.outputs = compare_outputs(problem_, workload_, reference, actual, rewritten, options);
    for (Verdict& verdict : anchors_.compare(reference.tensors, forward_outputs_))
      run.outputs.push_back(std::move(verdict));
    add_run(std::move(run));
    check_bits("fwd", regime, request_.options.grads, forward_bits_.get(), inputs_, forward_outputs_);
  }

  Tensors backward_inputs() {
    const Tensors handed_over = stored(forward_outputs_);
    const Tensors cotangents = stored_cotangents(handed_over);
    Tensors all = inputs_;
    for (const auto& [name, tensor] : cotangents) all[name] = tensor;
    for (const std::string& name : request_.options.save) {
      auto saved = forward_outputs_.find(name);
      if (saved == forward_outputs_.end()) throw CheckError("the forward wrote no " + name + ": " + failure_);
      all[name] = saved->second;
    }
    return all;
  }

  /// What the consumer of these forward outputs hands back, as the caller stores it.
  Tensors stored_cotangents(const Tensors& forward_outputs) {
    kda::KernelOp forward = forward_.kernel(Stage::kda), backward = backward_.kernel(Stage::derived);
    ConsumerOptions consumer = consumer_;
    if (consumer.bf16_operands) consumer.forward = &forward_outputs;
    if (anchors_.any()) consumer.anchors = &forward_outputs;
    Tensors exponents;
    const Workload& source = strange_ ? generic_workload() : workload_;
    if (!source.has_consumer()) {
      exponents = tensors_of(evaluator::output_exponents(forward, arrays_of(inputs_), instance_of(problem_.shape)),
                             forward, problem_.shape);
      limit_exponents_of_anchored(forward, exponents);
      consumer.exponents = &exponents;
    }
    Tensors result = store_cotangents(source.upstream(problem_, inputs_, consumer), backward, problem_);
    if (consumer.bf16_operands && !strange_)
      attainable_ = workload_.attainable(problem_, inputs_, read_cotangents(result, problem_), consumer);
    return result;
  }

  /// Saved values in float64, as the float64 forward has them.
  evaluator::Arrays with_exact_residuals(const Tensors& all) {
    evaluator::Arrays arrays = arrays_of(all);
    if (request_.options.save.empty()) return arrays;
    evaluator::Arrays forward =
        evaluate_f64(forward_.kernel(Stage::derived), arrays_of(inputs_), problem_.shape, false).tensors;
    for (const std::string& name : request_.options.save) arrays[name] = std::move(forward.at(name));
    return arrays;
  }

  void check_backward(const std::string& regime) {
    const Shape& shape = problem_.shape;
    const Tensors all = backward_inputs();
    const evaluator::Arrays arrays = arrays_of(all), exact = with_exact_residuals(all);
    kda::KernelOp rewritten = backward_.kernel(Stage::rewritten), unrewritten = backward_.kernel(Stage::derived);
    auto evaluated = [&](kda::KernelOp kernel, evaluator::Arrays inputs, bool obey_rounds) {
      if (anchoring_)
        anchors_.restate_cotangents(inputs, forward_outputs_,
                                    anchoring_->kernel(kernel == rewritten ? Stage::rewritten : Stage::derived),
                                    obey_rounds);
      return evaluate_f64(kernel, inputs, shape, obey_rounds);
    };

    // Rounded operands change the function on purpose, and stored residuals agree with one another only to a rounding:
    // then the kernel's reference is the rewritten program, which in turn must equal the unrewritten one without both.
    const bool rewritten_is_reference = rounded_ || !request_.options.save.empty();
    Evaluation unrewritten_f64 = evaluated(unrewritten, exact, !rounded_);
    Evaluation rewritten_f64 = evaluated(rewritten, arrays, true);
    Reference reference{tensors_of(rewritten_is_reference ? rewritten_f64.tensors
                                                          : reference_of(rewritten_f64, unrewritten_f64, error_factor),
                                   rewritten, shape),
                        rewritten_f64.errors,
                        {},
                        {}};
    if (rewritten_is_reference) rewritten_f64 = evaluated(rewritten, exact, !rounded_);
    compare_f64("bwd", regime, rewritten, std::move(rewritten_f64), std::move(unrewritten_f64));
    reference.terms = workload_.parameter_terms(problem_, inputs_, reference.tensors, Oracle::kernel);
    judge_backward(regime, all, reference);
  }

  void judge_backward(const std::string& regime, const Tensors& all, Reference& reference) {
    ComparisonOptions options;
    options.regime = regime;
    options.factor = error_factor;
    options.consumer = rounded_ || strange_ ? nullptr : &consumer_;  // a workload's own bounds are for its own draws
    // A consumer on exact operands has no use for a backward that multiplies rounded ones.
    const bool to_the_end = workload_.has_consumer() && !strange_ && (consumer_.bf16_operands || !rounded_);
    Tensors f32;
    if (f32_subject_) {
      f32 = outputs_of(*f32_subject_, all);
      options.storage = "f32";
      judge_gradients("f32", f32, reference, options);
      check_bits("bwd", regime, "f32", f32_bits_.get(), all, f32);
      if (to_the_end) judge_end_to_end(regime, f32, "f32");
    }
    const std::string& grads = request_.options.grads;
    if (grads == "f32") return;
    options.storage.clear();
    const Tensors narrow = stored_subject_ ? outputs_of(*stored_subject_, all) : stored(std::move(f32));
    judge_gradients(grads, narrow, reference, options);
    check_bits("bwd", regime, grads, stored_bits_.get(), all, narrow);
    if (!f32_subject_ && to_the_end) judge_end_to_end(regime, narrow, "");
  }

  void judge_gradients(const std::string& grads, const Tensors& actual, const Reference& reference,
                       const ComparisonOptions& options) {
    CheckRun run = new_run("bwd", options.regime, grads, subject_name() + " against float64");
    run.outputs = compare_outputs(problem_, workload_, reference, actual, backward_.kernel(Stage::rewritten), options);
    add_run(std::move(run));
  }

  /// Against the exact gradient of consumer(forward(inputs)), by the workload's own bounds.
  void judge_end_to_end(const std::string& regime, const Tensors& actual, const std::string& storage) {
    Reference exact;
    exact.tensors = workload_.end_to_end(problem_, inputs_, consumer_);
    // With a consumer on exact operands what is judged are still the kernel's errors.
    exact.terms = workload_.parameter_terms(problem_, inputs_, exact.tensors,
                                            consumer_.bf16_operands ? Oracle::end_to_end : Oracle::kernel);
    if (attainable_) {
      exact.unavoidable = *attainable_;
      for (auto& [name, tensor] : exact.unavoidable)
        for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] -= exact.tensors.at(name).values[i];
    }
    ComparisonOptions options;
    options.oracle = Oracle::end_to_end;
    options.regime = regime;
    options.storage = storage;
    options.consumer = &consumer_;
    CheckRun run = new_run("bwd", regime, storage.empty() ? request_.options.grads : storage,
                           subject_name() + " against the exact gradient of the whole pipeline");
    run.oracle = "end_to_end";
    run.outputs = compare_outputs(problem_, workload_, exact, actual, backward_.kernel(Stage::rewritten), options);
    if (!run.outputs.empty()) add_run(std::move(run));
  }

  /// Where nothing saturates: elsewhere a difference quotient is rounding noise.
  void check_derivative(const std::string& regime) {
    CheckRun run = new_run("bwd", regime, "f64", "float64 unrewritten against finite differences");
    run.outputs = compare_with_differences(request_, forward_.kernel(Stage::kda), problem_, workload_, regime);
    report_.runs.push_back(std::move(run));
  }

  const CheckRequest& request_;
  Compilation forward_, backward_;
  std::unique_ptr<Compilation> f32_backward_;
  std::unique_ptr<Compilation> anchoring_;  ///< the backward that keeps its anchors, which algebra may take apart
  Problem problem_;
  const Workload& workload_;
  const Anchors anchors_;
  std::vector<std::string> regimes_;
  bool rounded_ = false;
  /// No draw of the workload: some rows of the inputs are near zero, to show what an epsilon under a root does, and
  /// every cotangent is noise, where a consumer may have no use for some outputs (the state after the last tile).
  bool strange_ = false;
  ConsumerOptions consumer_;
  std::unique_ptr<Subject> forward_subject_, f32_subject_, stored_subject_;
  std::unique_ptr<Subject> forward_bits_, f32_bits_, stored_bits_;
  Tensors inputs_, forward_outputs_;
  std::optional<Tensors> attainable_;
  std::string failure_;  ///< of the last run of a subject
  CheckReport report_;
};

}  // namespace

CheckReport run_check(const CheckRequest& request) { return Checker(request).run(); }

}  // namespace kdagen
