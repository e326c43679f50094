// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/disassemble.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/files.h"
#include "runtime/process.h"
#include "runtime/toolkit.h"

namespace kdagen::cli {
namespace {

std::optional<std::filesystem::path> find_in_toolkits(const std::string& name) {
  if (const auto found = runtime::find_program(name)) return found;
  for (const std::filesystem::path& root : runtime::toolkit_folders())
    if (const auto found = runtime::find_program((root / "bin" / name).string())) return found;
  return std::nullopt;
}

/// The command that prints the SASS of a file, without the file's name.
std::vector<std::string> find_disassembler() {
  if (const auto program = find_in_toolkits("nvdisasm")) return {program->string(), "--print-code"};
  if (const auto program = find_in_toolkits("cuobjdump")) return {program->string(), "-sass"};
  throw ToolchainError(
      "--stage sass: neither nvdisasm nor cuobjdump is in PATH or in a CUDA toolkit's bin folder; install the CUDA "
      "toolkit, or the PyPI wheel nvidia-cuda-nvdisasm, and put the program into PATH");
}

}  // namespace

std::string disassemble(const std::string& cubin) {
  std::vector<std::string> command = find_disassembler();
  const runtime::TemporaryDirectory work = runtime::Cache::shared().scratch();
  const std::string_view pieces[] = {cubin};
  if (const std::string failure = runtime::write_file_atomically(work.path() / "kernel.cubin", pieces, false);
      !failure.empty())
    throw ToolchainError(failure);
  command.push_back("kernel.cubin");  // a name that no shell of the program's own can misread
  const runtime::ProcessResult result =
      runtime::run_process(command, {work.path(), runtime::compiler_environment(".")});
  if (result.exit_code != 0)
    throw ToolchainError(fmt::format("{} refuses the cubin:\n{}", command.front(), result.output));
  return result.output;
}

}  // namespace kdagen::cli
