// SPDX-License-Identifier: Apache-2.0
#include "tools/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "kdagen/registry.h"
#include "runtime/cache.h"
#include "runtime/compilers.h"
#include "runtime/files.h"
#include "runtime/process.h"

namespace kdagen::runtime {
std::span<const EmbeddedFile> dsl_headers();  // dsl/include
}

namespace kdagen {
namespace {

namespace fs = std::filesystem;
using runtime::Compiler;

std::string read_whole(const fs::path& path) {
  std::string error;
  if (auto text = runtime::read_file(path, error)) return *text;
  throw ToolchainError(path.string() + ": " + error);
}

void write_whole(const fs::path& path, std::string_view text) {
  const std::string error = runtime::write_file_atomically(path, std::span(&text, 1), false);
  if (!error.empty()) throw ToolchainError(error);
}

/// Runs the compiler on the user's spec. SpecError with its messages, the first error in front, if it fails.
void run_compiler(const Compiler& compiler, std::vector<std::string> arguments, const std::string& source,
                  const fs::path& scratch) {
  arguments.insert(arguments.begin(), compiler.path.string());
  const runtime::ProcessResult result = runtime::run_process(arguments, {{}, runtime::compiler_environment(scratch)});
  if (result.exit_code == 0) return;
  const std::string& output = result.output;
  const std::size_t error = output.find("error: ");
  const std::size_t begin = error == std::string::npos ? 0 : output.rfind('\n', error) + 1;
  const std::string first = error == std::string::npos ? source + ":1: error: the spec does not compile"
                                                       : output.substr(begin, output.find('\n', error) - begin);
  throw SpecError(fmt::format("{}\n{}({}, exit code {})", first, output, compiler.label(), result.exit_code));
}

/// Everything the compiler will see, with marks for the user's files and lines.
std::string preprocess(const Compiler& compiler, const std::string& source, const fs::path& scratch) {
  const fs::path headers = runtime::Cache::shared().unpack(runtime::dsl_headers()), text = scratch / "spec.ii";
  run_compiler(compiler, {"-std=c++20", "-E", "-I", headers.string(), "-o", text.string(), "-x", "c++", source}, source,
               scratch);
  return read_whole(text);
}

std::string compile(const Compiler& compiler, const std::string& text, const std::string& source,
                    const fs::path& scratch) {
  const fs::path input = scratch / "spec.ii", exports = scratch / "exports", plugin = scratch / "plugin.so";
  write_whole(input, text);
  // Nothing but the interface is visible, so no definition of the plug-in can be mistaken for one of the program.
  write_whole(exports, "{ global: kdagen_spec_*; local: *; };\n");
  run_compiler(
      compiler,
      {"-std=c++20", "-O0", "-fPIC", "-shared", "-s", "-w", "-Wl,--no-undefined",
       "-Wl,--version-script=" + exports.string(), "-o", plugin.string(), "-x", "c++-cpp-output", input.string()},
      source, scratch);
  return read_whole(plugin);
}

using Handle = std::unique_ptr<void, int (*)(void*)>;

template <class Function>
Function* find_function(const Handle& handle, const char* name) {
  return reinterpret_cast<Function*>(dlsym(handle.get(), name));
}

/// Loads the plug-in and asks for the graph; `options` as lines (kdagen/registry.h).
std::string ask(const fs::path& plugin, const std::string& source, const std::string& options) {
  const Handle handle(dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!handle) throw ToolchainError("cannot load the plug-in of " + source + ": " + dlerror());
  const auto schema = find_function<int()>(handle, "kdagen_spec_schema");
  const auto graph = find_function<int(const char*, char**, char**)>(handle, "kdagen_spec_graph");
  const auto release = find_function<void(char*)>(handle, "kdagen_spec_free");
  if (!schema || !graph || !release)
    throw SpecError(source + ":1: error: the file registers no spec; end it with KDAGEN_SPEC(name, function)");
  if (schema() != graph_schema)
    throw SpecError(
        fmt::format("{}:1: error: the spec includes DSL headers of schema {}, this program's are {}; "
                    "include <kdagen/kdagen.h> and no copy of it",
                    source, schema(), graph_schema));
  char *bytes = nullptr, *error = nullptr;
  const int status = graph(options.c_str(), &bytes, &error);
  const std::unique_ptr<char, void (*)(char*)> owned_bytes(bytes, release), owned_error(error, release);
  if (status == 0 && bytes) return bytes;
  const std::string message = error ? error : source + ":1: error: the spec handed over nothing";
  if (status == 2) throw UsageError(message);
  throw SpecError(message);
}

}  // namespace

std::string plugin_graph(const std::string& path, const std::map<std::string, std::string>& options) {
  const std::string source = path.starts_with('-') ? "./" + path : path;
  std::error_code ignored;
  if (!fs::is_regular_file(source, ignored) || access(source.c_str(), R_OK) != 0)
    throw UsageError("cannot read the spec " + path + "; pass a shipped spec's name or the path of a .cpp file");
  const std::string lines = plugin::write_options(options);
  const Compiler compiler = runtime::find_compiler(runtime::CompilerChoice::host);
  runtime::Cache& cache = runtime::Cache::shared();
  const runtime::TemporaryDirectory scratch = cache.scratch();
  const std::string text = preprocess(compiler, source, scratch.path());

  const runtime::CacheKey key{source, "host", compiler.label(), {{"compiler", compiler.path.string()}, {"text", text}}};
  const runtime::CachedObject object = cache.get(key, [&] {
    return runtime::CachedObject{compile(compiler, text, source, scratch.path()), {}, {}, false};
  });
  if (!object.file.empty()) return ask(object.file, source, lines);
  write_whole(scratch.path() / "uncached.so", object.bytes);
  return ask(scratch.path() / "uncached.so", source, lines);
}

}  // namespace kdagen
