// SPDX-License-Identifier: Apache-2.0
#include "runtime/compile.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/files.h"
#include "runtime/nvrtc.h"
#include "runtime/process.h"

namespace kdagen::runtime {
namespace {

struct Job {
  const std::string& text;
  const CompileOptions& options;
  Compiler compiler;
  CompileTarget target;
  bool ptx = false;

  std::string target_name() const { return ptx ? target.arch.compute() : target.arch.sm(); }
};

// Options by their common spelling; NVRTC and nvcc both take it.
std::vector<std::string> common_options(const Job& job) {
  std::vector<std::string> options{fmt::format("--gpu-architecture={}", job.target_name()), "--fmad=false",
                                   fmt::format("--std=c++{}", job.options.standard)};
  if (!job.ptx) options.push_back("--ptxas-options=-v");
  options.insert(options.end(), job.options.extra.begin(), job.options.extra.end());
  return options;
}

Job make_job(const std::string& text, const std::string& arch, const CompileOptions& options) {
  if (options.compiler == CompilerChoice::host) throw KdagenBug("compile() takes nvrtc or nvcc");
  if (options.standard != 17 && options.standard != 20)
    throw UsageError(fmt::format("C++{} is not a standard for emitted text; 17 and 20 are", options.standard));
  const Arch wanted = parse_arch(arch);
  Job job{text, options, find_compiler(options.compiler), {}, false};
  job.target = choose_target(job.compiler, wanted, options.newer_device);
  job.ptx = options.want_ptx || job.target.ptx;
  return job;
}

CacheKey make_key(const Job& job) {
  CacheKey key{job.options.kernel, job.target_name(), job.compiler.label(), {}};
  key.parts = {{"text", job.text}, {"options", fmt::format("{}", fmt::join(common_options(job), "\n"))}};
  for (const EmbeddedFile& file : runtime_headers()) key.parts.emplace_back(file.path, file.text);
  return key;
}

CompiledText start_result(const Job& job) {
  CompiledText result;
  result.is_ptx = job.ptx;
  result.target = job.target_name();
  result.compiler = job.compiler.label();
  return result;
}

CompiledText compile_with_nvrtc(const Job& job) {
  CompiledText result = start_result(job);
  NvrtcOutput output = run_nvrtc(job.text, job.options.kernel + ".cu", runtime_headers(), common_options(job), job.ptx);
  if (!output.ok) refuse_text(job.options, result.compiler, result.target, output.log);
  result.image = std::move(output.image);
  result.log = std::move(output.log);
  return result;
}

CompiledText compile_with_nvcc(const Job& job, Cache& cache) {
  CompiledText result = start_result(job);
  const TemporaryDirectory work = cache.scratch();
  // nvcc writes the names it is given, and TMPDIR, into command lines of a shell: it gets none that somebody chose.
  // They are relative, which also keeps the paths of this machine out of the object.
  std::error_code failure;
  std::filesystem::create_directory_symlink(cache.unpack(runtime_headers()), work.path() / "include", failure);
  if (failure) throw ToolchainError(fmt::format("cannot write in {}: {}", work.path().string(), failure.message()));
  const std::string_view pieces[] = {job.text};
  const std::string error = write_file_atomically(work.path() / "kernel.cu", pieces, false);
  if (!error.empty()) throw ToolchainError(error);
  std::vector<std::string> argv{job.compiler.path.string(), job.ptx ? "--ptx" : "--cubin", "-I", "include"};
  const std::vector<std::string> options = common_options(job);
  argv.insert(argv.end(), options.begin(), options.end());
  argv.insert(argv.end(), {"-o", "kernel.out", "kernel.cu"});
  const ProcessResult run = run_process(argv, {work.path(), compiler_environment(".")});
  std::string read_error;
  auto image = read_file(work.path() / "kernel.out", read_error);
  if (run.exit_code != 0 || !image || image->empty())
    refuse_text(job.options, result.compiler, result.target, run.output);
  result.image = std::move(*image);
  result.log = run.output;
  return result;
}

nlohmann::json to_json(const CompiledText& text) {
  return {{"is_ptx", text.is_ptx}, {"target", text.target}, {"compiler", text.compiler}, {"log", text.log}};
}

// The number that starts at or after `position`, or 0.
int number_at(std::string_view line, std::size_t position) {
  int value = 0;
  position = line.find_first_of("0123456789", position);
  if (position != std::string_view::npos) std::from_chars(line.data() + position, line.data() + line.size(), value);
  return value;
}

// The number in front of `unit`, as in "40 bytes stack frame"; `otherwise` if the line has no such unit.
int number_before(std::string_view line, std::string_view unit, int otherwise) {
  const std::size_t found = line.find(unit);
  if (found == std::string_view::npos) return otherwise;
  std::size_t begin = found;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return begin == found ? otherwise : number_at(line, begin);
}

std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  return line.substr(0, line.find(after));
}

}  // namespace

void refuse_text(const CompileOptions& options, const std::string& compiler, const std::string& target,
                 const std::string& log) {
  throw CompileError(fmt::format("{} refuses the text of {} for {}:\n{}", compiler, options.kernel, target, log));
}

CompiledText cached_compile(Cache& cache, const CacheKey& key, const std::function<CompiledText()>& build) {
  CachedObject object = cache.get(key, [&] {
    CompiledText text = build();
    CachedObject fresh;
    fresh.info = to_json(text);
    fresh.bytes = std::move(text.image);
    return fresh;
  });
  CompiledText text;
  const nlohmann::json& info = object.info;
  text.is_ptx = info.value("is_ptx", false);
  text.target = info.value("target", "");
  text.compiler = info.value("compiler", "");
  text.log = info.value("log", "");
  text.resources = parse_resources(text.log);
  text.image = std::move(object.bytes);
  text.file = object.file;
  text.built = object.built;
  return text;
}

CacheKey compile_key(const std::string& text, const std::string& arch, const CompileOptions& options) {
  return make_key(make_job(text, arch, options));
}

CompiledText compile(const std::string& text, const std::string& arch, const CompileOptions& options, Cache& cache) {
  const Job job = make_job(text, arch, options);
  return cached_compile(cache, make_key(job), [&] {
    return job.options.compiler == CompilerChoice::nvrtc ? compile_with_nvrtc(job) : compile_with_nvcc(job, cache);
  });
}

std::vector<EntryResources> parse_resources(std::string_view log) {
  std::vector<EntryResources> entries;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const std::string_view name = between(line, "Compiling entry function '", "'"); !name.empty()) {
      EntryResources entry;
      entry.entry = name;
      entry.arch = between(line, "' for '", "'");
      entries.push_back(entry);
    }
    if (entries.empty()) continue;
    EntryResources& entry = entries.back();
    entry.stack_bytes = number_before(line, " bytes stack frame", entry.stack_bytes);
    entry.spill_store_bytes = number_before(line, " bytes spill stores", entry.spill_store_bytes);
    entry.spill_load_bytes = number_before(line, " bytes spill loads", entry.spill_load_bytes);
    if (line.find("Used ") == std::string_view::npos) continue;
    entry.registers = number_before(line, " registers", entry.registers);
    entry.barriers = number_before(line, " barriers", entry.barriers);
    entry.shared_bytes = number_before(line, " bytes smem", entry.shared_bytes);
  }
  return entries;
}

}  // namespace kdagen::runtime
