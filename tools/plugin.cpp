// SPDX-License-Identifier: Apache-2.0
#include "tools/plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "kdagen/registry.h"
#include "runtime/cache.h"
#include "runtime/compilers.h"
#include "runtime/files.h"
#include "runtime/process.h"
#include "runtime/trust.h"
#include "tools/line_markers.h"

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

/// What is compiled here runs as this user, so it must be this user who says what it is.
void require_trusted(const std::string& source, const std::string& file) {
  const std::string problem = runtime::execution_problem(file);
  if (problem.empty()) return;
  const std::string what = file == source ? "the spec" : "the header " + file;
  throw UsageError(fmt::format("{}:1: error: {} is not compiled: {}", source, what, problem));
}

/// Everything the compiler will see, with marks for the user's files and lines.
std::string preprocess(const Compiler& compiler, const std::string& source, const fs::path& scratch) {
  const fs::path headers = runtime::Cache::shared().unpack(runtime::dsl_headers()), text = scratch / "spec.ii";
  run_compiler(compiler, {"-std=c++20", "-E", "-I", headers.string(), "-o", text.string(), "-x", "c++", source}, source,
               scratch);
  std::string result = read_whole(text);
  for (const std::string& file : entered_files(result)) require_trusted(source, file);
  return result;
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

enum class Verdict : char { graph = 'g', spec_error = 's', usage_error = 'u', toolchain_error = 't' };
/// A verdict's letter, and the graph or the message.
using Answer = std::string;
Answer answer(Verdict verdict, const std::string& text) { return static_cast<char>(verdict) + text; }

/// Loads the plug-in and asks for the graph; `options` as lines (kdagen/registry.h).
Answer ask(const fs::path& plugin, const std::string& source, const std::string& options) {
  const Handle handle(dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!handle) return answer(Verdict::toolchain_error, "cannot load the plug-in of " + source + ": " + dlerror());
  const auto schema = find_function<int()>(handle, "kdagen_spec_schema");
  const auto graph = find_function<int(const char*, char**, char**)>(handle, "kdagen_spec_graph");
  const auto release = find_function<void(char*)>(handle, "kdagen_spec_free");
  if (!schema || !graph || !release)
    return answer(Verdict::spec_error,
                  source + ":1: error: the file registers no spec; end it with KDAGEN_SPEC(name, function)");
  if (schema() != graph_schema)
    return answer(Verdict::spec_error,
                  fmt::format("{}:1: error: the spec includes DSL headers of schema {}, this program's are {}; "
                              "include <kdagen/kdagen.h> and no copy of it",
                              source, schema(), graph_schema));
  char *bytes = nullptr, *error = nullptr;
  const int status = graph(options.c_str(), &bytes, &error);
  const std::unique_ptr<char, void (*)(char*)> owned_bytes(bytes, release), owned_error(error, release);
  if (status == 0 && bytes) return answer(Verdict::graph, bytes);
  return answer(status == 2 ? Verdict::usage_error : Verdict::spec_error,
                error ? error : source + ":1: error: the spec handed over nothing");
}

/// ask() in a child process: a spec is its user's code, and may crash or end the process that runs it.
std::string ask_apart(const fs::path& plugin, const std::string& source, const std::string& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw ToolchainError(std::string("cannot make a pipe: ") + std::strerror(errno));
  const runtime::FileDescriptor output(ends[0]);
  runtime::FileDescriptor input(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // interrupting the terminal's group would not reach it
    // A crash is told by its signal, whatever the host handles.
    for (int crash : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(crash, SIG_DFL);
    const Answer text = ask(plugin, source, options) + '.';  // the end, so that a part is no answer
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = write(input.get(), text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR) _exit(1);
      done += count < 0 ? 0 : static_cast<std::size_t>(count);
    }
    _exit(0);
  }
  if (child < 0) throw ToolchainError(std::string("cannot start a process for the spec: ") + std::strerror(errno));
  setpgid(child, child);  // whoever comes first
  input = runtime::FileDescriptor();
  const auto [text, status, late] = runtime::await_child(child, output.get());
  if (!late.empty()) throw SpecError(fmt::format("{}:1: error: the spec {}", source, late));
  if (WIFSIGNALED(status))
    throw SpecError(fmt::format("{}:1: error: the spec crashed: {}", source, strsignal(WTERMSIG(status))));
  if (text.size() < 2 || text.back() != '.')
    throw SpecError(fmt::format("{}:1: error: the spec ended the process (exit code {}) before it handed over a graph",
                                source, WEXITSTATUS(status)));
  const std::string rest = text.substr(1, text.size() - 2);
  switch (static_cast<Verdict>(text[0])) {
    case Verdict::graph:
      return rest;
    case Verdict::usage_error:
      throw UsageError(rest);
    case Verdict::toolchain_error:
      throw ToolchainError(rest);
    case Verdict::spec_error:
      break;
  }
  throw SpecError(rest);
}

}  // namespace

std::string plugin_graph(const std::string& path, const std::map<std::string, std::string>& options) {
  // The compiler takes "-" for an option, and "@" for a file of options.
  const std::string source = path.starts_with('-') || path.starts_with('@') ? "./" + path : path;
  std::error_code ignored;
  if (!fs::is_regular_file(source, ignored) || access(source.c_str(), R_OK) != 0)
    throw UsageError("cannot read the spec " + path + "; pass a shipped spec's name or the path of a .cpp file");
  require_trusted(source, source);
  const std::string lines = plugin::write_options(options);
  const Compiler compiler = runtime::find_compiler(runtime::CompilerChoice::host);
  runtime::Cache& cache = runtime::Cache::shared();
  const runtime::TemporaryDirectory scratch = cache.scratch();
  const std::string text = preprocess(compiler, source, scratch.path());

  const runtime::CacheKey key{source, "host", compiler.label(), {{"compiler", compiler.path.string()}, {"text", text}}};
  const runtime::CachedObject object = cache.get(
      key, [&] { return runtime::CachedObject{compile(compiler, text, source, scratch.path()), {}, {}, false}; });
  if (!object.file.empty()) return ask_apart(object.file, source, lines);
  write_whole(scratch.path() / "uncached.so", object.bytes);
  return ask_apart(scratch.path() / "uncached.so", source, lines);
}

}  // namespace kdagen
