// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/files.h"
#include "runtime/launcher_header.h"
#include "tools/cli/command.h"
#include "tools/tune/tune.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::string arch = "sm_90", directory;
  bool check = false, update = false, launcher = false;
};

/// generated/sm_90, and so on: where the checked-in texts of an architecture stand.
std::filesystem::path generated_folder(const std::string& arch) { return std::filesystem::path("generated") / arch; }

std::string read_or_empty(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int compare(const std::filesystem::path& path, const std::string& wanted) {
  if (read_or_empty(path) == wanted) return 0;
  fmt::print(stderr, "kdagen: {} {}; kdagen emit --update would rewrite it\n", path.string(),
             std::filesystem::exists(path) ? "differs from what is emitted now" : "is missing");
  return 1;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::string failure = runtime::write_file_atomically(path, std::span(&bytes, 1), true);
  if (!failure.empty()) throw UsageError(fmt::format("{}: {}", path.string(), failure));
}

int run(const Arguments& arguments) {
  struct File {
    std::filesystem::path name;
    std::string bytes;
  };
  std::vector<File> files;
  for (Direction direction : arguments.spec.directions()) {
    Compilation compilation = arguments.spec.compile(direction);
    emit::Emitted emitted = tune::emit_tuned(compilation, arguments.arch);
    files.push_back({emitted.manifest.kernel + ".cu", emitted.text});
    files.push_back({emitted.manifest.kernel + ".json", runtime::dump_manifest(emitted.manifest)});
    if (arguments.launcher)
      files.push_back({emitted.manifest.kernel + ".h", runtime::launcher_header(emitted.manifest)});
  }
  bool golden = arguments.check || arguments.update;
  if (arguments.directory.empty() && !golden) {
    for (const File& file : files)
      if (file.name.extension() == ".cu") fmt::print("{}", file.bytes);
    return 0;
  }
  std::filesystem::path folder =
      !arguments.directory.empty() ? std::filesystem::path(arguments.directory) : generated_folder(arguments.arch);
  int code = 0;
  if (arguments.check) {
    for (const File& file : files) code |= compare(folder / file.name, file.bytes);
    return code;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UsageError(fmt::format("-o {}: {}", folder.string(), error.message()));
  for (const File& file : files) write_file(folder / file.name, file.bytes);
  return 0;
}
}  // namespace

void add_emit(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(app, "emit", "print CUDA C++, or write it with its manifest", chosen,
                                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, true, "both", true);
  command->add_option("--arch", arguments->arch, "sm_80 ... sm_121")->capture_default_str();
  auto* folder = command->add_option("-o", arguments->directory, "folder for <spec>_<pass>.cu and .json");
  auto* check = command->add_flag("--check", arguments->check, "compare with generated/<arch>, or with -o's folder");
  command->add_flag("--update", arguments->update, "rewrite generated/<arch>, or -o's folder")->excludes(check);
  command->add_flag("--launcher", arguments->launcher, "also write <spec>_<pass>.h, a typed C++ launcher")
      ->needs(folder);
}

}  // namespace kdagen::cli
