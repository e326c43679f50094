// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/compile.h"
#include "runtime/emulator/emulator.h"
#include "runtime/files.h"
#include "runtime/process.h"

namespace kdagen::runtime {
namespace {

constexpr const char* source_name = "kernel.cpp";
constexpr const char* object_name = "kernel.so";

std::vector<std::string> command(const std::string& cxx, const std::string& include_folder,
                                 const CompileOptions& options) {
  std::vector<std::string> argv =
      emulator::host_compile_command(cxx, source_name, include_folder, object_name, options.emulator_check);
  argv.insert(argv.end(), options.extra.begin(), options.extra.end());
  return argv;
}

CompiledText compile_now(const std::string& text, const CompileOptions& options, const Compiler& compiler,
                         Cache& cache) {
  CompiledText result;
  result.target = "host";
  result.compiler = compiler.label();
  const TemporaryDirectory work = cache.scratch();
  const std::string_view pieces[] = {text};
  const std::string error = write_file_atomically(work.path() / source_name, pieces, false);
  if (!error.empty()) throw ToolchainError(error);
  const ProcessResult run =
      run_process(command(compiler.path.string(), cache.unpack(runtime_headers()).string(), options),
                  {work.path(), compiler_environment(work.path())});
  std::string read_error;
  auto image = read_file(work.path() / object_name, read_error);
  if (run.exit_code != 0 || !image || image->empty()) refuse_text(options, result.compiler, "the emulator", run.output);
  result.image = std::move(*image);
  result.log = run.output;
  return result;
}

}  // namespace

CompiledText compile_host(const std::string& text, const CompileOptions& options, Cache& cache) {
  const Compiler compiler = find_compiler(CompilerChoice::host);
  CacheKey key{options.kernel, options.emulator_check ? "host, checked" : "host", compiler.label(), {}};
  key.parts = {{"text", text}, {"command", fmt::format("{}", fmt::join(command("c++", "include", options), "\n"))}};
  for (const EmbeddedFile& file : runtime_headers()) key.parts.emplace_back(file.path, file.text);
  return cached_compile(cache, key, [&] { return compile_now(text, options, compiler, cache); });
}

}  // namespace kdagen::runtime
