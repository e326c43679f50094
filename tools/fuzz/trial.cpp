// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/trial.h"

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "codegen/backend.h"
#include "runtime/compile.h"
#include "runtime/device.h"
#include "runtime/kernel.h"
#include "tools/check/bits.h"
#include "tools/check/check.h"

namespace kdagen::fuzz {
namespace {

using Chance = std::mt19937_64;

int one_of(Chance& chance, std::initializer_list<int> choices) { return choices.begin()[chance() % choices.size()]; }

/// A schedule that the scheduler takes, in every other respect any.
std::string any_schedule(Compilation& compilation, const std::string& arch, Chance& chance) {
  const std::string wish[] = {fmt::format("threads={}", one_of(chance, {32, 64, 128, 256, 512})),
                              fmt::format("tiles_per_block={}", one_of(chance, {1, 2, 4, 8, 16})),
                              fmt::format("min_blocks={}", one_of(chance, {1, 2, 4})),
                              fmt::format("heads_fastest={}", one_of(chance, {0, 1})),
                              fmt::format("stages={}", one_of(chance, {0, 0, 1, 2, 3}))};
  std::string schedule;
  for (const std::string& key : wish) {
    const std::string longer = schedule.empty() ? key : schedule + "," + key;
    try {
      schedule_figures(compilation, arch, longer);
      schedule = longer;
    } catch (const UsageError&) {  // does not fit the spec's size
    }
  }
  return schedule.empty() ? "default" : schedule;
}

/// Texts of one pass under different schedules: they must give the same bits.
class Schedules : public Subject {
 public:
  void add(std::string schedule, std::unique_ptr<Subject> subject) {
    subjects_.emplace_back(std::move(schedule), std::move(subject));
  }

  Tensors run(const Tensors& inputs, const Shape& shape) override {
    const Tensors first = subjects_.front().second->run(inputs, shape);
    for (size_t i = 1; i < subjects_.size(); ++i)
      for (const Verdict& verdict : compare_bits(first, subjects_[i].second->run(inputs, shape)))
        if (!verdict.ok)
          throw CheckError(fmt::format("{}: schedule {} gives other bits than {}: {}", verdict.name, subjects_[i].first,
                                       subjects_.front().first, verdict.note));
    return first;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Subject>>> subjects_;
};

class Trial {
 public:
  Trial(const Sketch& sketch, const TrialOptions& options) : sketch_(sketch), options_(options), chance_(options.seed) {
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
      return report.pass() ? Outcome{}
                           : Outcome{is_undecided(report) ? Outcome::undecided : Outcome::failed, failures(report)};
    } catch (const runtime::CompileError& error) {  // a text that a compiler refuses
      return {Outcome::failed, error.what()};
    } catch (const ToolchainError&) {
      throw;
    } catch (const std::exception& error) {  // what was compiled once must be compiled again, and run
      return {Outcome::failed, error.what()};
    }
  }

 private:
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
    }
    if (options_.on == "cpu") return;
    request_.given_text = true;  // one text a pass: gradients in the storage asked for
    request_.emit = [this](Compilation& compilation) { return emitted(compilation); };
    twice_ = chance_() % 2 ? Direction::fwd : Direction::bwd;
  }

  std::unique_ptr<Subject> load(Compilation& compilation, const std::string& schedule) {
    emit::Emitted kernel = emit_kernel_as(compilation, schedule, arch_);
    if (options_.edit) kernel.text = options_.edit(std::move(kernel.text));
    if (options_.on == "cuda") return emitted_subject(runtime::make_cuda_kernel(kernel.text, kernel.manifest), 0);
    return emitted_subject(runtime::make_emulated_kernel(kernel.text, kernel.manifest), -1);
  }

  /// Some schedule; and the default beside it, on a device always, on the emulator for one of the passes.
  std::unique_ptr<Subject> emitted(Compilation& compilation) {
    auto schedules = std::make_unique<Schedules>();
    const std::string schedule = any_schedule(compilation, arch_, chance_);
    schedules->add(schedule, load(compilation, schedule));
    if (options_.on == "cuda" || compilation.direction() == twice_)
      schedules->add("default", load(compilation, "default"));
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
  Chance chance_;
  std::string arch_ = "sm_90";
  Direction twice_ = Direction::bwd;
  CheckRequest request_;
};

}  // namespace

Outcome try_sketch(const Sketch& sketch, const TrialOptions& options) { return Trial(sketch, options).run(); }

}  // namespace kdagen::fuzz
