// SPDX-License-Identifier: Apache-2.0
#include "tests/common/emulated_program.h"

#include "codegen/backend.h"
#include "kdagen/registry.h"

namespace kdagen::testing {

struct EmulatedProgram::Program {
  CompileOptions options;
  std::string graph;
  bool checks = true;
  std::unique_ptr<runtime::Kernel> kernels[2];
};

EmulatedProgram::EmulatedProgram(const std::string& name, Settings settings) : program_(new Program) {
  program_->options = take_compile_options(settings);
  for (const RegisteredSpec& spec : registered_specs())
    if (spec.name == name) program_->graph = spec_graph(spec, Options(settings));
  if (program_->graph.empty()) throw UsageError("no spec is called " + name);
}

EmulatedProgram::EmulatedProgram(const test::Body& body, Settings settings) : program_(new Program) {
  program_->options = take_compile_options(settings);
  program_->graph = test::graph_of(body, settings);
}

EmulatedProgram::EmulatedProgram(GraphBytes graph, Settings settings) : program_(new Program) {
  program_->options = take_compile_options(settings);
  program_->graph = std::move(graph.bytes);
}

EmulatedProgram::~EmulatedProgram() = default;

void EmulatedProgram::without_checks() { program_->checks = false; }

const std::string& EmulatedProgram::graph() const { return program_->graph; }

std::pair<std::string, runtime::Manifest> EmulatedProgram::emit(Pass pass, const std::string& arch) const {
  Compilation compilation(program_->graph, pass == Pass::bwd ? Direction::bwd : Direction::fwd, program_->options);
  emit::Emitted emitted = emit_kernel(compilation, arch);
  return {std::move(emitted.text), std::move(emitted.manifest)};
}

runtime::Kernel& EmulatedProgram::kernel(Pass pass) {
  auto& kernel = program_->kernels[pass == Pass::bwd];
  if (!kernel) {
    auto [text, manifest] = emit(pass);
    runtime::KernelOptions options;
    options.emulator_check = program_->checks;
    kernel = runtime::make_emulated_kernel(std::move(text), std::move(manifest), options);
  }
  return *kernel;
}

}  // namespace kdagen::testing
