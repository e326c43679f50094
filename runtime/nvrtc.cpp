// SPDX-License-Identifier: Apache-2.0
#include "runtime/nvrtc.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "runtime/cache.h"
#include "runtime/files.h"
#include "runtime/libraries.h"
#include "runtime/process.h"
#include "runtime/toolkit.h"
#include "runtime/trust.h"

namespace kdagen::runtime {

struct NvrtcLibrary::Functions {
  using Program = void*;
  int (*Version)(int*, int*);
  int (*GetNumSupportedArchs)(int*);
  int (*GetSupportedArchs)(int*);
  int (*CreateProgram)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*DestroyProgram)(Program*);
  int (*CompileProgram)(Program, int, const char* const*);
  int (*GetPTXSize)(Program, std::size_t*);
  int (*GetPTX)(Program, char*);
  int (*GetCUBINSize)(Program, std::size_t*);
  int (*GetCUBIN)(Program, char*);
  int (*GetProgramLogSize)(Program, std::size_t*);
  int (*GetProgramLog)(Program, char*);
  const char* (*GetErrorString)(int);
};

namespace {

using Functions = NvrtcLibrary::Functions;
constexpr int compilation_failed = 6;

// NVRTC opens its builtins by bare name, which fails in a folder the loader does not search; once they are loaded, the
// name resolves to them.
void preload_builtins(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.") && execution_problem(item.path()).empty())
      dlopen(item.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
}

bool load_functions(void* library, Functions& f, std::string& reason) {
  const auto load = [&](auto& slot, const char* name) {
    slot = reinterpret_cast<std::decay_t<decltype(slot)>>(dlsym(library, name));
    if (!slot) reason = fmt::format("it has no {}", name);
    return slot != nullptr;
  };
  return load(f.Version, "nvrtcVersion") && load(f.GetNumSupportedArchs, "nvrtcGetNumSupportedArchs") &&
         load(f.GetSupportedArchs, "nvrtcGetSupportedArchs") && load(f.CreateProgram, "nvrtcCreateProgram") &&
         load(f.DestroyProgram, "nvrtcDestroyProgram") && load(f.CompileProgram, "nvrtcCompileProgram") &&
         load(f.GetPTXSize, "nvrtcGetPTXSize") && load(f.GetPTX, "nvrtcGetPTX") &&
         load(f.GetCUBINSize, "nvrtcGetCUBINSize") && load(f.GetCUBIN, "nvrtcGetCUBIN") &&
         load(f.GetProgramLogSize, "nvrtcGetProgramLogSize") && load(f.GetProgramLog, "nvrtcGetProgramLog") &&
         load(f.GetErrorString, "nvrtcGetErrorString");
}

std::unique_ptr<NvrtcLibrary> open_nvrtc(const std::string& name, std::string& reason) {
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  // Before the library, and only beside one that will be loaded.
  if (!folder.empty() && execution_problem(name).empty()) preload_builtins(folder);
  void* handle = open_library(name, reason);
  if (!handle) return nullptr;
  auto functions = std::make_unique<Functions>();
  auto library = std::make_unique<NvrtcLibrary>();
  if (!load_functions(handle, *functions, reason)) return nullptr;
  int count = 0;
  functions->Version(&library->major, &library->minor);
  functions->GetNumSupportedArchs(&count);
  library->archs.resize(static_cast<std::size_t>(count));
  functions->GetSupportedArchs(library->archs.data());
  Dl_info info;
  library->path = dladdr(reinterpret_cast<void*>(functions->Version), &info) && info.dli_fname ? info.dli_fname : name;
  library->build = build_of(reinterpret_cast<const void*>(functions->Version));
  if (library->build.empty()) {
    std::string unread;
    const auto bytes = read_file(library->path, unread);
    if (!bytes) {
      reason = fmt::format("cannot read {}: {}", library->path.string(), unread);
      return nullptr;
    }
    library->build = hash_text(*bytes);
  }
  library->functions = functions.release();  // lives as long as the library, which is never closed
  return library;
}

std::vector<std::string> candidates(const std::string& chosen) {
  if (!chosen.empty()) return {chosen};
  std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so"};
  for (const std::filesystem::path& root : toolkit_folders())
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib"})
      for (const char* file : {"libnvrtc.so.13", "libnvrtc.so"}) {
        std::error_code ignored;
        const std::filesystem::path path = root / folder / file;
        if (std::filesystem::exists(path, ignored)) names.push_back(path.string());
      }
  return names;
}

class Program {
 public:
  Program(const Functions& f, const std::string& text, const std::string& name, std::span<const EmbeddedFile> headers)
      : f_(f) {
    std::vector<std::string> owned;  // NVRTC wants terminated strings
    for (const EmbeddedFile& file : headers)
      owned.insert(owned.end(), {std::string(file.path), std::string(file.text)});
    std::vector<const char*> names, texts;
    for (std::size_t i = 0; i < owned.size(); i += 2) {
      names.push_back(owned[i].c_str());
      texts.push_back(owned[i + 1].c_str());
    }
    check(f.CreateProgram(&program_, text.c_str(), name.c_str(), static_cast<int>(names.size()), texts.data(),
                          names.data()));
  }
  ~Program() { f_.DestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return f_.CompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string fetch(int (*size)(void*, std::size_t*), int (*get)(void*, char*)) {
    std::size_t bytes = 0;
    check(size(program_, &bytes));
    std::string result(bytes, '\0');
    if (bytes > 0) check(get(program_, result.data()));
    return result;
  }

  void check(int result) const {
    if (result != 0) throw ToolchainError(fmt::format("NVRTC failed: {}", f_.GetErrorString(result)));
  }

 private:
  const Functions& f_;
  void* program_ = nullptr;
};

void strip_terminator(std::string& text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
}

}  // namespace

const NvrtcLibrary& nvrtc_library() {
  static auto* mutex = new std::mutex;
  static auto* opened = new std::map<std::string, std::unique_ptr<NvrtcLibrary>>;
  const std::string chosen = environment_variable("KDAGEN_NVRTC");
  const std::lock_guard lock(*mutex);
  std::unique_ptr<NvrtcLibrary>& library = (*opened)[chosen];
  if (library) return *library;
  std::string reasons;
  for (const std::string& name : candidates(chosen)) {
    std::string reason;
    library = open_nvrtc(name, reason);
    if (library) return *library;
    reasons += fmt::format("\n  {}: {}", name, reason);
  }
  throw ToolchainError(
      fmt::format("NVRTC is not found{}:{}\nIt comes with the CUDA toolkit (13.0) or the PyPI wheel nvidia-cuda-nvrtc; "
                  "KDAGEN_NVRTC names "
                  "the file libnvrtc.so.13",
                  chosen.empty() ? "" : " (KDAGEN_NVRTC is set, so no other place was tried)", reasons));
}

NvrtcOutput run_nvrtc(const std::string& text, const std::string& name, std::span<const EmbeddedFile> headers,
                      const std::vector<std::string>& options, bool ptx) {
  const Functions& f = *nvrtc_library().functions;
  Program program(f, text, name, headers);
  std::vector<std::string> all = options;
  // From 12.9 on NVRTC has a cache of its own, whose hits come without a log, and the log tells registers and spills.
  if (std::pair(nvrtc_library().major, nvrtc_library().minor) >= std::pair(12, 9)) all.push_back("--no-cache");
  const int result = program.compile(all);
  NvrtcOutput output;
  output.log = program.fetch(f.GetProgramLogSize, f.GetProgramLog);
  strip_terminator(output.log);
  if (result == compilation_failed) return output;
  if (result != 0)
    throw ToolchainError(
        fmt::format("NVRTC failed: {}{}{}", f.GetErrorString(result), output.log.empty() ? "" : "\n", output.log));
  output.image = ptx ? program.fetch(f.GetPTXSize, f.GetPTX) : program.fetch(f.GetCUBINSize, f.GetCUBIN);
  if (ptx) strip_terminator(output.image);
  output.ok = true;
  return output;
}

}  // namespace kdagen::runtime
