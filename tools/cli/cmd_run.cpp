// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "tools/cli/command.h"
#include "tools/execute/run.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::string on, in, out;
  std::vector<std::string> taps;
};

int run(const Arguments& arguments) {
  std::filesystem::path folder = std::filesystem::path(arguments.out).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder))
    throw UsageError(fmt::format("--out {}: there is no folder {}", arguments.out, folder.string()));
  RunRequest request;
  request.graph = arguments.spec.graph(request.options);
  request.direction = arguments.spec.directions().front();
  request.options.taps = arguments.taps;
  request.place = arguments.on == "cpu" ? Place::cpu : arguments.on == "cuda" ? Place::cuda : Place::emulator;
  runtime::write_safetensors(arguments.out, run_pass(request, runtime::read_safetensors(arguments.in)));
  return 0;
}
}  // namespace

void add_run(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      add_command(app, "run", "one pass on the tensors of a file", chosen, [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "", false);
  command->get_option("--pass")->required();
  command
      ->add_option("--on", arguments->on, "cpu (float64; --set arithmetic=f32: the kernel's types), emulator or cuda")
      ->check(CLI::IsMember({"cpu", "emulator", "cuda"}))
      ->required();
  command->add_option("--in", arguments->in, "safetensors: the pass's inputs by name, and cu_seqlens if packed")
      ->required();
  command->add_option("--out", arguments->out, "safetensors: the outputs, or the gradients as d<name>")->required();
  command->add_option("--tap", arguments->taps, "also write this inner value; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace kdagen::cli
