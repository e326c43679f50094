// SPDX-License-Identifier: Apache-2.0
#include "codegen/backend.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/explain/formulas.h"
#include "codegen/import/fields.h"
#include "codegen/import/from_graph.h"
#include "codegen/schedule/normalise.h"
#include "codegen/schedule/registers.h"
#include "codegen/schedule/schedule.h"

namespace kdagen {
namespace {

/// A kernel program and the module that its values live in.
struct Scheduled {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  schedule::Program program;
};

Scheduled schedule_kernel(Compilation& compilation, const std::string& schedule, const std::string& arch) {
  Scheduled scheduled;
  scheduled.module = spelled_out(compilation);
  schedule::ScheduleOptions options;
  options.schedule = schedule;
  options.layout = compilation.options().layout == Layout::htd ? "htd" : "bthd";
  options.arch = arch;
  scheduled.program = schedule::schedule(*scheduled.module, options);
  return scheduled;
}

/// "kdagen emit rmsnorm --pass bwd --set chunk=64": only what differs from the defaults is named.
std::string remake_command(Compilation& compilation, const CompileOptions& options, const std::string& arch) {
  auto graph = nlohmann::json::parse(compilation.graph());
  std::string command =
      fmt::format("kdagen emit {} --pass {}", graph.value("name", ""), direction_name(compilation.direction()));
  if (arch != "sm_90") command += " --arch " + arch;
  auto text = [](const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  for (const auto& option : graph.value("options", nlohmann::json::array()))
    if (option.contains("value") && option["value"] != option.value("default", nlohmann::json()))
      command += fmt::format(" --set {}={}", option.value("name", ""), text(option["value"]));
  auto defaults = CompileOptions().resolved();
  for (const auto& [key, value] : options.resolved())
    if (!defaults.count(key) || defaults[key] != value) command += fmt::format(" --set {}={}", key, value);
  return command;
}
}  // namespace

mlir::OwningOpRef<mlir::ModuleOp> spelled_out(Compilation& compilation) {
  mlir::OwningOpRef<mlir::ModuleOp> module = compilation.module(Stage::rewritten).clone();
  schedule::normalise(*module);
  return module;
}

std::string scheduled_text(Compilation& compilation, const std::string& arch) {
  compilation.require_ranges();
  return schedule::to_text(schedule_kernel(compilation, compilation.options().schedule, arch).program);
}

ScheduleFigures schedule_figures(Compilation& compilation, const std::string& arch, const std::string& schedule) {
  Scheduled scheduled = schedule_kernel(compilation, schedule, arch);
  const schedule::Program& program = scheduled.program;
  return {program.tiling, program.shared_floats * 4, program.staging.slot_bytes,
          schedule::most_resident_blocks(program)};
}

emit::Emitted emit_kernel(Compilation& compilation, const std::string& arch, bool force) {
  return emit_kernel_as(compilation, compilation.options().schedule, arch, force);
}

emit::Emitted emit_kernel_as(Compilation& compilation, const std::string& schedule, const std::string& arch,
                             bool force) {
  schedule::shared_limit(arch);  // an unknown architecture is refused before anything else
  if (!force) compilation.require_ranges();
  Scheduled scheduled = schedule_kernel(compilation, schedule, arch);
  emit::EmitOptions options;
  options.compile = compilation.options();
  options.compile.schedule = schedule;
  options.arch = arch;
  options.spec_hash = compilation.spec_hash();
  options.summary = one_line(nlohmann::json::parse(compilation.graph()).value("summary", ""));
  options.remake = one_line(remake_command(compilation, options.compile, arch));
  options.formulas = formula_lines(compilation.kernel(Stage::rewritten), 110);
  return emit::emit(scheduled.program, options);
}

}  // namespace kdagen
