// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>

#include "codegen/backend.h"
#include "kdagen/error.h"
#include "runtime/compile.h"
#include "tools/cli/command.h"
#include "tools/cli/disassemble.h"
#include "tools/tune/tune.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::string stage = "rewritten", arch = "sm_90";
};

std::string ranges_of(Compilation& compilation) { return range_text(range_report(compilation.kernel(Stage::derived))); }

/// PTX or cubin of the emitted text.
runtime::CompiledText compiled(Compilation& compilation, const std::string& arch, bool ptx) {
  emit::Emitted emitted = tune::emit_tuned(compilation, arch);
  runtime::CompileOptions options;
  options.compiler = runtime::default_cuda_compiler();
  options.kernel = emitted.manifest.kernel;
  options.want_ptx = ptx;
  runtime::CompiledText result = runtime::compile(emitted.text, arch, options);
  if (ptx) result.image.erase(result.image.find_last_not_of('\0') + 1);  // NVRTC's ends with one
  return result;
}

int run(const Arguments& arguments) {
  Compilation compilation = arguments.spec.compile(arguments.spec.directions().front());
  const std::string& stage = arguments.stage;
  for (Stage known : {Stage::spec, Stage::kda, Stage::derived, Stage::rewritten})
    if (stage == stage_name(known)) {
      fmt::print("{}", compilation.text(known));
      return 0;
    }
  if (stage == "ranges")
    fmt::print("{}", ranges_of(compilation));
  else if (stage == "scheduled")
    fmt::print("{}", scheduled_text(compilation, arguments.arch));
  else if (stage == "cuda")
    fmt::print("{}", tune::emit_tuned(compilation, arguments.arch).text);
  else if (stage == "ptx")
    fmt::print("{}", compiled(compilation, arguments.arch, true).image);
  else
    fmt::print("{}", disassemble(compiled(compilation, arguments.arch, false).image));
  return 0;
}
}  // namespace

void add_show(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      add_command(app, "show", "print the program after a step", chosen, [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "bwd", false);
  command->add_option("--stage", arguments->stage, "which step")
      ->check(CLI::IsMember({"spec", "kda", "derived", "rewritten", "ranges", "scheduled", "cuda", "ptx", "sass"}))
      ->capture_default_str();
  command->add_option("--arch", arguments->arch, "sm_80 ... sm_121")->capture_default_str();
}

}  // namespace kdagen::cli
