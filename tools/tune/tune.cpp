// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune.h"

#include <algorithm>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/warn.h"
#include "tools/tune/device_bench.h"

namespace kdagen::tune {
namespace {

constexpr int device_ordinal = 0;
constexpr int most_compared = 3;  // of the stored schedules, until one is found that passes

/// The device to run on, if there is one and texts for `arch` are its own.
std::optional<runtime::DeviceInfo> device_of(const std::string& arch, std::string& reason) {
  try {
    runtime::DeviceInfo device = runtime::device_info(device_ordinal);
    if (device.arch == arch) return device;
    reason = fmt::format("the device here ({}) is {}, not {}", device.name, device.arch, arch);
  } catch (const Error&) {
    reason = "there is no device to ask for";
  }
  return {};
}

/// Why a stored choice is not to be used; empty if it gives the default's bits.
class Judge {
 public:
  Judge(Compilation& compilation, const runtime::DeviceInfo& device, const emit::Emitted& plain)
      : compilation_(compilation), device_(device), plain_(plain) {}

  std::string operator()(const runtime::TunedText& text) {
    constexpr int any_spills = std::numeric_limits<int>::max();  // it was judged when it was stored
    try {
      const emit::Emitted emitted = emit_kernel_as(compilation_, text.schedule, device_.arch);
      if (emit::hash_text(emitted.text) != text.text_hash) return "its text is another one than was timed";
      const Built built = build(emitted, device_.arch, any_spills);
      if (!built.rejected.empty()) return built.rejected;
      if (!references_)
        references_ =
            std::make_unique<SmallReferences>(*build(plain_, device_.arch, any_spills).kernel, device_.ordinal);
      return references_->difference(*built.kernel);
    } catch (const UsageError& error) {
      return error.what();
    }
  }

 private:
  Compilation& compilation_;
  const runtime::DeviceInfo& device_;
  const emit::Emitted& plain_;
  std::unique_ptr<SmallReferences> references_;
};

/// What was chosen for the nearest size, if it gives the default's bits; empty with a reason.
std::string stored_choice(Compilation& compilation, const runtime::DeviceInfo& device,
                          const std::optional<runtime::Problem>& problem, const std::vector<int64_t>& lengths,
                          std::string& reason) {
  const emit::Emitted plain = emit_kernel_as(compilation, "default", device.arch);
  const std::string compiler = runtime::find_compiler(runtime::default_cuda_compiler()).label();
  const runtime::TuningKey key =
      tuning_key(plain, compiler, device.ordinal, problem ? *problem : problem_of(BenchSizes()), lengths);
  const runtime::TuningStore store = store_of(device, plain.manifest);
  Judge judge(compilation, device, plain);
  reason = fmt::format(
      "no choice is stored for {} with these options, this compiler and driver on {}; kdagen tune would make one",
      plain.manifest.kernel, device.name);
  std::vector<runtime::TunedText> choices = store.choices(key);
  if (static_cast<int>(choices.size()) > most_compared) choices.resize(most_compared);
  for (const runtime::TunedText& choice : choices) {
    const std::string failure = judge(choice);
    if (failure.empty()) return choice.schedule;
    store.reject(key, choice, failure);
    runtime::warn_once(
        fmt::format("the stored schedule {} of {} is not used: {}", choice.schedule, plain.manifest.kernel, failure));
    reason = "no stored choice passes; kdagen tune would make one";
  }
  return "";
}

}  // namespace

int jobs_beside_timing(unsigned cores) { return static_cast<int>(std::max(2U, cores) - 1); }

TuneRun tune(Compilation& compilation, const TuneRequest& request, const std::vector<Casualty>& casualties,
             const Report& report) {
  compilation.require_ranges();
  const runtime::DeviceInfo device = runtime::device_info(request.ordinal);
  std::vector<Candidate> all = candidates(compilation, device.arch, processor_of(device));
  if (all.size() > request.most_candidates) all.resize(request.most_candidates);
  DeviceBench bench(compilation, device.arch, request.sizes, request.ordinal, request.patience);
  const runtime::TuningStore store = store_of(device, emit_kernel_as(compilation, "default", device.arch).manifest);
  std::vector<runtime::TuningEntry> known = bench.still_true(store.entries(bench.key()));
  for (const Casualty& casualty : casualties) {  // also where nothing can be stored
    const runtime::TunedText text = bench.tuned_text(casualty.schedule);
    store.reject(bench.key(), text, casualty.reason);
    known.push_back({text, {}, casualty.reason});
  }
  const auto keep = [&](const std::string& schedule, const Trial& trial) {
    if (trial.rejected.empty())
      store.add_timing(bench.key(), bench.tuned_text(schedule), trial.ms);
    else
      store.reject(bench.key(), bench.tuned_text(schedule), trial.rejected);
  };
  SearchOptions options;
  options.deadline = request.deadline;
  options.jobs = jobs_beside_timing(std::thread::hardware_concurrency());
  const SearchResult result = search(
      all, bench, known, options, keep,
      [&](const SearchResult& so_far, size_t candidates) { report.progress(so_far, candidates); },
      [&](const std::string& schedule, Clock::duration limit) { report.trying(schedule, limit); });
  store.choose(bench.key(), bench.tuned_text(result.best));
  return {std::string(direction_name(compilation.direction())), result};
}

TuneRun tune_apart(const std::function<Compilation(bool first_process)>& compilation, const TuneRequest& request,
                   const Progress& progress) {
  const nlohmann::json run = supervise(
      [&](const std::vector<Casualty>& casualties, const Report& report) -> nlohmann::json {
        Compilation own = compilation(casualties.empty());
        const TuneRun run = tune(own, request, casualties, report);
        return {{"direction", run.direction}, {"result", to_json(run.result)}};
      },
      progress);
  return {run.at("direction"), search_result(run.at("result"))};
}

std::string schedule_for(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem, const std::vector<int64_t>& lengths) {
  if (compilation.options().schedule != "tuned") return compilation.options().schedule;
  std::string reason, schedule;
  if (const std::optional<runtime::DeviceInfo> device = device_of(arch, reason)) try {
      schedule = stored_choice(compilation, *device, problem, lengths, reason);
    } catch (const ToolchainError& error) {
      reason = fmt::format("what is stored cannot be compared with it: {}", error.what());
    }
  if (!schedule.empty()) return schedule;
  fmt::print(stderr, "kdagen: note: schedule=tuned is the default schedule here: {}\n", reason);
  return "default";
}

emit::Emitted emit_tuned(Compilation& compilation, const std::string& arch,
                         const std::optional<runtime::Problem>& problem, bool force) {
  if (compilation.options().schedule != "tuned") return emit_kernel(compilation, arch, force);
  if (!force) compilation.require_ranges();
  return emit_kernel_as(compilation, schedule_for(compilation, arch, problem), arch, force);
}

}  // namespace kdagen::tune
