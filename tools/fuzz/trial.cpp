// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/trial.h"

#include <cmath>

#include <fmt/format.h>

#include "codegen/backend.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "runtime/kernel.h"
#include "tools/check/check.h"
#include "tools/fuzz/schedules.h"

namespace kdagen::fuzz {
namespace {

class Trial {
 public:
  Trial(const Sketch& sketch, const TrialOptions& options) : sketch_(sketch), options_(options) {
    if (options.on == "cuda") arch_ = runtime::device_info(0).arch;
  }

  Outcome run() {
    try {
      prepare();
    } catch (const SpecError& error) {
      return {Outcome::refused, first_line(error.what())};
    } catch (const UsageError& error) {
      return {Outcome::refused, first_line(error.what())};
    } catch (const KdagenBug& error) {
      return {Outcome::failed, error.what()};
    }
    try {
      const CheckReport report = run_check(request_);
      if (report.pass()) return {Outcome::passed, "", keys_};
      const bool undecided = is_undecided(report) || gradients_leave_fp16(report);
      return {undecided ? Outcome::undecided : Outcome::failed, failures(report) + schedules_};
    } catch (const runtime::CompileError& error) {  // a text that a compiler refuses
      return failed(error);
    } catch (const ToolchainError&) {
      throw;
    } catch (const std::exception& error) {  // what was compiled once must be compiled again, and run
      return failed(error);
    }
  }

 private:
  Outcome failed(const std::exception& error) const {
    return {Outcome::failed, fmt::format("{}\n{}", error.what(), schedules_)};
  }

  void prepare() {
    std::map<std::string, std::string> options = sketch_.options;
    request_.options = take_compile_options(options);
    request_.graph = sketch_.graph();
    request_.on = options_.on;
    request_.seed = options_.seed;
    request_.shape = sketch_.shape;
    request_.leave_out_optional = sketch_.given_left_out;
    for (Direction direction : {Direction::fwd, Direction::bwd}) {
      Compilation compilation(request_.graph, direction, request_.options);
      compilation.kernel(Stage::rewritten);
      compilation.require_ranges();
      if (options_.on != "cpu") schedule_figures(compilation, arch_, "default");  // shared memory may not be enough
    }
    if (options_.on == "cpu") return;
    request_.given_text = true;  // one text a pass: gradients in the storage asked for
    request_.emit = [this](Compilation& compilation) { return emitted(compilation); };
  }

  std::unique_ptr<Subject> load(Compilation& compilation, const std::string& schedule, const CallersMemory& memory) {
    emit::Emitted kernel = emit_kernel_as(compilation, schedule, arch_);
    if (options_.edit) kernel.text = options_.edit(std::move(kernel.text));
    if (options_.on == "cuda")
      return emitted_subject(runtime::make_cuda_kernel(kernel.text, kernel.manifest), 0, 2, memory);
    return emitted_subject(runtime::make_emulated_kernel(kernel.text, kernel.manifest), -1, 2, memory);
  }

  /// The sketch's schedule in the sketch's memory, and the default beside it in plain memory.
  std::unique_ptr<Subject> emitted(Compilation& compilation) {
    auto schedules = std::make_unique<Schedules>(sketch_.repeats);
    const std::string schedule = fitting_schedule(compilation, arch_, sketch_.schedule);
    keys_.merge(keys_of(schedule));
    schedules->add(schedule, load(compilation, schedule, sketch_.memory));
    schedules->add("default", load(compilation, "default", {}));
    schedules_ += fmt::format("{} schedule {}\n", direction_name(compilation.direction()), schedule);
    return schedules;
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  /// Whatever is not ok is a number without a bound.
  static bool is_undecided(const CheckReport& report) {
    for (const CheckRun& run : report.runs) {
      if (!run.failure.empty()) return false;
      for (const Verdict& verdict : run.outputs) {
        const bool bounded = std::isfinite(verdict.rel_bound) && std::isfinite(verdict.max_bound);
        if (!verdict.ok && (bounded || !std::isfinite(verdict.rel_l2))) return false;
      }
    }
    return true;
  }

  /// Whatever is not ok is a gradient that became infinite as fp16, and is right as f32. No range is proven of those.
  bool gradients_leave_fp16(const CheckReport& report) {
    for (const CheckRun& run : report.runs) {
      if (!run.failure.empty()) return false;
      for (const Verdict& verdict : run.outputs)
        if (!verdict.ok && !(run.direction == "bwd" && run.grads == "fp16" && std::isinf(verdict.rel_l2))) return false;
    }
    request_.options.grads = "f32";
    return run_check(request_).pass();
  }

  static std::string failures(const CheckReport& report) {
    std::string text;
    for (const CheckRun& run : report.runs) {
      if (run.ok()) continue;
      text += fmt::format("{} grads={}: {}{}{}\n", run.direction, run.grads, run.comparison,
                          run.failure.empty() ? "" : ": ", run.failure);
      for (const Verdict& verdict : run.outputs)
        if (!verdict.ok && verdict.note != "absent")
          text += fmt::format("  {}: rel {:.2e} (bound {:.2e}), max {:.2e} (bound {:.2e}) {}\n", verdict.name,
                              verdict.rel_l2, verdict.rel_bound, verdict.max_rel, verdict.max_bound, verdict.note);
    }
    return text;
  }

  const Sketch& sketch_;
  const TrialOptions& options_;
  std::string arch_ = "sm_90";
  CheckRequest request_;
  std::set<std::string> keys_;  // of the schedules
  std::string schedules_;       // a line each
};

}  // namespace

Outcome try_sketch(const Sketch& sketch, const TrialOptions& options) { return Trial(sketch, options).run(); }

}  // namespace kdagen::fuzz
