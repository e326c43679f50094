// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/backend.h"
#include "kdagen/error.h"
#include "tools/check/check.h"
#include "tools/cli/command.h"
#include "tools/cli/source_text.h"
#include "tools/tune/tune.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::string on = "cpu", source, arch;
  std::optional<std::string> regime, pipeline;
  double do_scale = 1;
  std::optional<int64_t> tokens, batch, heads, unused_rows;
  std::vector<int64_t> seqlens;
  uint64_t seed = 1;
  unsigned orders = 2;
  std::string offsets;  // of cu_seqlens: i32 or i64
  int64_t base_offset = 0;
  int64_t strides = 0;
  bool force = false, json = false;
};

std::string arch_of(const Arguments& arguments) {
  if (!arguments.arch.empty()) return arguments.arch;
  return arguments.on == "cuda" ? runtime::device_info(0).arch : "sm_90";
}

/// What schedule=tuned stands for: asked once a pass, of the options as given. A check looks at variants of them.
using Schedules = std::map<Direction, std::string>;
Schedules tuned_schedules(const Arguments& arguments) {
  Schedules schedules;
  for (Direction direction : arguments.spec.directions())
    if (Compilation compilation = arguments.spec.compile(direction); compilation.options().schedule == "tuned")
      schedules[direction] = tune::schedule_for(compilation, arch_of(arguments));
  return schedules;
}

CallersMemory callers_memory(const Arguments& arguments) {
  CallersMemory memory;
  if (arguments.offsets == "i64") memory.offsets = runtime::OffsetType::i64;
  memory.base_offset = arguments.base_offset;
  memory.strides = static_cast<uint64_t>(arguments.strides);
  return memory;
}

void check_callers_memory(const Arguments& arguments, const Shape& shape) {
  if (arguments.on == "cpu" && (!arguments.offsets.empty() || arguments.base_offset != 0 || arguments.strides != 0))
    throw UsageError(fmt::format("{}: goes with --on emulator or cuda; nothing is launched on cpu",
                                 arguments.base_offset != 0 ? "--base-offset"
                                 : arguments.strides != 0   ? "--strides"
                                                            : "--cu-seqlens"));
  if (arguments.on == "cpu" && !arguments.arch.empty())
    throw UsageError("--arch: goes with --on emulator or cuda; no text is emitted for cpu");
  if (!arguments.offsets.empty() && !shape.packed)
    throw UsageError("--cu-seqlens: goes with packed sequences; pass --seqlens in place of --tokens and --batch");
  if (arguments.base_offset < 0 || arguments.base_offset >= 256 || arguments.base_offset % 2 != 0)
    throw UsageError(fmt::format("--base-offset {}: pass an even number from 0 to 254", arguments.base_offset));
}

/// Emits a pass (or takes --source's text in its place) and loads it where it is to run.
std::unique_ptr<Subject> emitted(Compilation& compilation, const Arguments& arguments, const Schedules& schedules) {
  const bool cuda = arguments.on == "cuda";
  const auto tuned = schedules.find(compilation.direction());
  const std::string schedule = tuned == schedules.end() ? compilation.options().schedule : tuned->second;
  emit::Emitted kernel = emit_kernel_as(compilation, schedule, arch_of(arguments), arguments.force);
  const bool judged = direction_name(compilation.direction()) == arguments.spec.pass;
  if (!arguments.source.empty() && judged) kernel.text = read_source(arguments.source);
  if (cuda)
    return emitted_subject(runtime::make_cuda_kernel(kernel.text, kernel.manifest), 0, arguments.orders,
                           callers_memory(arguments));
  return emitted_subject(runtime::make_emulated_kernel(kernel.text, kernel.manifest), -1, arguments.orders,
                         callers_memory(arguments));
}

int run(const Arguments& arguments) {
  if (!arguments.source.empty() && (arguments.on == "cpu" || arguments.spec.pass == "both"))
    throw UsageError("--source: goes with one pass (--pass fwd or bwd) and --on emulator or cuda");
  CheckRequest request;
  request.graph = arguments.spec.graph(request.options);
  request.forward = arguments.spec.pass != "bwd";
  request.backward = arguments.spec.pass != "fwd";
  request.on = arguments.on;
  request.regime = arguments.regime;
  request.pipeline = arguments.pipeline;
  request.do_scale = arguments.do_scale;
  request.seed = arguments.seed;
  request.given_text = !arguments.source.empty();
  request.shape =
      check_shape(arguments.tokens, arguments.seqlens, arguments.batch, arguments.heads, arguments.unused_rows);
  check_callers_memory(arguments, request.shape);
  if (!arguments.force)
    for (Direction direction : arguments.spec.directions())
      Compilation(request.graph, direction, request.options).require_ranges();
  Schedules schedules;
  if (arguments.on != "cpu") {
    schedules = tuned_schedules(arguments);
    request.emit = [&](Compilation& compilation) { return emitted(compilation, arguments, schedules); };
  }
  CheckReport report = run_check(request);
  fmt::print("{}", arguments.json ? to_json(report).dump(2) + "\n" : to_text(report));
  return report.pass() ? 0 : 1;
}
}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(app, "check", "compare what is computed with float64", chosen,
                                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "both", true);
  command->add_option("--on", arguments->on, "cpu (the float32 evaluator), emulator or cuda (the emitted text)")
      ->check(CLI::IsMember({"cpu", "emulator", "cuda"}))
      ->capture_default_str();
  command->add_option("--regime", arguments->regime, "one of the workload's regimes; all by default");
  command->add_option("--do-scale", arguments->do_scale, "size of the gradients that arrive")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--pipeline", arguments->pipeline, "operands of the consumer")
      ->check(CLI::IsMember({"exact", "bf16"}));
  command->add_option("--tokens", arguments->tokens, "tokens a batch row")->check(CLI::NonNegativeNumber);
  command->add_option("--seqlens", arguments->seqlens, "lengths of packed sequences: 16,33,0,7")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  command->add_option("--batch", arguments->batch, "batch rows")->check(CLI::NonNegativeNumber);
  command->add_option("--heads", arguments->heads, "heads (4)")->check(CLI::NonNegativeNumber);
  command->add_option("--unused-rows", arguments->unused_rows, "rows of packed tensors after the last sequence")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--cu-seqlens", arguments->offsets, "type of the offsets of packed sequences (i32)")
      ->check(CLI::IsMember({"i32", "i64"}));
  command
      ->add_option("--base-offset", arguments->base_offset,
                   "tensors start so many bytes past an aligned address, on an element's boundary")
      ->capture_default_str();
  command
      ->add_option("--strides", arguments->strides,
                   "not 0: draws gaps between rows, tokens and heads and an order of these; even: of whole 16 bytes")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the inputs")->capture_default_str();
  command->add_option("--arch", arguments->arch, "check the text of this architecture (the device's own; sm_90)");
  command->add_option("--source", arguments->source, "check this text in place of the emitted one")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--orders", arguments->orders,
                   "runs of a text on the same input, on the emulator each in another order of threads")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "also when exponents are not proven");
  command->add_flag("--json", arguments->json, "as JSON");
}

}  // namespace kdagen::cli
