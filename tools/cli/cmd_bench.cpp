// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/backend.h"
#include "codegen/schedule/schedule.h"
#include "kdagen/error.h"
#include "tools/bench/bench.h"
#include "tools/check/quick_check.h"
#include "tools/cli/command.h"
#include "tools/cli/size_arguments.h"
#include "tools/cli/source_text.h"
#include "tools/tune/tune.h"

namespace kdagen::cli {
namespace {

constexpr int device_ordinal = 0;

struct Arguments {
  SpecArguments spec;
  std::string on, source, arch;
  SizeArguments size;
  bool json = false;
};

/// The text that is measured: emitted, or --source's.
emit::Emitted text_for(Compilation& compilation, const Arguments& arguments, const std::string& schedule,
                       const std::string& arch) {
  emit::Emitted emitted = emit_kernel_as(compilation, schedule, arch);
  if (!arguments.source.empty()) {
    emitted.text = read_source(arguments.source);
    emitted.manifest.text_hash = emit::hash_text(emitted.text);
  }
  return emitted;
}

/// A small check of the measured text.
bool verify(const Arguments& arguments, Direction direction, const std::string& schedule, const std::string& arch) {
  CompileOptions options;
  const std::string graph = arguments.spec.graph(options);
  const auto subject = [&](Compilation& compilation) {
    const bool measured = compilation.direction() == direction;
    const emit::Emitted emitted =
        measured ? text_for(compilation, arguments, schedule, arch) : emit_kernel(compilation, arch);
    return emitted_subject(runtime::make_cuda_kernel(emitted.text, emitted.manifest), device_ordinal);
  };
  return passes_quick_check(graph, options, direction, subject, !arguments.source.empty());
}

BenchRun measure(const Arguments& arguments, const BenchSizes& sizes, Direction direction) {
  Compilation compilation = arguments.spec.compile(direction);
  compilation.require_ranges();
  const std::string arch = arguments.arch.empty() ? runtime::device_info(device_ordinal).arch : arguments.arch;
  const std::string schedule = tune::schedule_for(compilation, arch, problem_of(sizes), sizes.seqlens);
  const emit::Emitted emitted = text_for(compilation, arguments, schedule, arch);
  const auto kernel = runtime::make_cuda_kernel(emitted.text, emitted.manifest);
  BenchRun run = time_kernel(*kernel, sizes, device_ordinal);
  run.config = schedule::tiling_text(schedule_figures(compilation, arch, schedule).tiling);
  run.verified = verify(arguments, direction, schedule, arch);
  return run;
}

int run(const Arguments& arguments) {
  if (!arguments.source.empty() && arguments.spec.pass == "both")
    throw UsageError("--source: goes with one pass (--pass fwd or bwd)");
  const BenchSizes sizes = arguments.size.sizes();
  std::vector<BenchRun> runs;
  for (Direction direction : arguments.spec.directions()) runs.push_back(measure(arguments, sizes, direction));
  const double copy = copy_speed(device_ordinal);
  bool verified = true;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (BenchRun& run : runs) {
    run.copy_gbps = copy;
    verified = verified && run.verified.value_or(true);
    list.push_back(to_json(run));
  }
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"spec", arguments.spec.spec}, {"runs", list}}.dump(2));
  else
    fmt::print(
        "{}\nplain copy: {:.0f} GB/s read and written; floor: the time of a copy of as many bytes; call: the host's time "
        "for the bare launches of a call + for its arguments, with the tensors of an earlier call; fresh: all of it with "
        "others, which are checked and laid out anew\n",
        to_text(runs), copy);
  return verified ? 0 : 1;
}
}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(app, "bench", "time on a device, against a plain copy", chosen,
                                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "both", true);
  command->add_option("--on", arguments->on, "cuda")->check(CLI::IsMember({"cuda"}))->required();
  arguments->size.add_to(*command);
  command->add_option("--arch", arguments->arch, "measure the text of this architecture (the device's own)");
  command->add_option("--source", arguments->source, "measure this text in place of the emitted one")
      ->check(CLI::ExistingFile);
  command->add_flag("--json", arguments->json, "as JSON");
}

}  // namespace kdagen::cli
