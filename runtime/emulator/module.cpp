// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "kdagen/error.h"
#include "runtime/emulator/emulator.h"
#include "runtime/process.h"

namespace kdagen::emulator {
namespace {

std::pair<std::uintptr_t, std::uintptr_t> loaded_image(void* handle) {
  const link_map* map = nullptr;
  dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map));
  struct Search {
    std::uintptr_t begin, end;
  } search{map->l_addr, map->l_addr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        Search& search = *static_cast<Search*>(data);
        if (info->dlpi_addr != search.begin) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (const ElfW(Phdr)& header = info->dlpi_phdr[i]; header.p_type == PT_LOAD)
            search.end = std::max(search.end, search.begin + header.p_vaddr + header.p_memsz);
        return 1;
      },
      &search);
  return {search.begin, search.end};
}

/// What -fsanitize inserts. The linker turns NAME into __wrap_NAME, the name that hooks.cpp and undefined_behaviour.cpp
/// define: so a program that has the sanitizers' own libraries in it can load checked texts too.
std::vector<std::string> sanitizer_calls() {
  std::vector<std::string> names;
  for (const char* prefix : {"__tsan_", "__tsan_unaligned_"})
    for (const char* access : {"read", "write"})
      for (const char* bytes : {"1", "2", "4", "8", "16"}) names.push_back(std::string(prefix) + access + bytes);
  for (const char* name :
       {"init", "func_entry", "func_exit", "read_range", "write_range", "memcpy", "memmove", "memset"})
    names.push_back(std::string("__tsan_") + name);
  for (const char* name : {"out_of_bounds", "type_mismatch_v1", "add_overflow", "sub_overflow", "mul_overflow",
                           "negate_overflow", "divrem_overflow", "shift_out_of_bounds"})
    names.push_back(std::string("__ubsan_handle_") + name);
  return names;
}

}  // namespace

std::vector<std::string> host_compile_command(const std::string& cxx, const std::string& source_path,
                                              const std::string& include_dir, const std::string& output_path,
                                              bool check) {
  std::vector<std::string> command = {cxx, "-std=c++20", "-O1", "-fPIC", "-shared"};
  // Numerics as the text says: no fused multiply-adds but fmaf. Four-element accesses view 16-bit types as words.
  for (const char* flag :
       {"-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing", "-fno-exceptions", "-Wno-unknown-pragmas"})
    command.push_back(flag);
  if (check)
    for (const char* flag : {"-fsanitize=thread,alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero",
                             "-g1", "-DKDAGEN_EMULATOR_CHECK"})
      command.push_back(flag);
  command.insert(command.end(), {"-I", include_dir, "-include", "kdagen/emulator.h", "-x", "c++", source_path});
  // No default libraries: neither the sanitizers', whose calls this program answers, nor the C++ library.
  command.insert(command.end(), {"-nodefaultlibs", "-lm", "-lc", "-o", output_path});
  if (check)
    for (const std::string& name : sanitizer_calls()) command.push_back("-Wl,--wrap=" + name);
  return command;
}

void host_compile(const std::string& cxx, const std::string& source_path, const std::string& include_dir,
                  const std::string& output_path, bool check) {
  const std::vector<std::string> command = host_compile_command(cxx, source_path, include_dir, output_path, check);
  const runtime::ProcessResult result = runtime::run_process(command);
  if (result.exit_code == 0) return;
  std::string line;
  for (const std::string& word : command) line += word + ' ';
  throw ToolchainError("the host compiler failed on " + source_path + "\n" + line + "\n" + result.output);
}

Module::Module(const std::string& shared_object_path)
    : path_(shared_object_path), handle_(dlopen(shared_object_path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!handle_) throw ToolchainError("cannot load the host-compiled kernel: " + std::string(dlerror()));
  image_ = loaded_image(handle_);
}

Module::~Module() { dlclose(handle_); }

void* Module::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

void* Module::entry(const std::string& name) const {
  if (void* const address = symbol(name + "_invoke")) return address;
  throw UsageError("emulator: " + path_ + " has no entry " + name + "; expected KD_ENTRY(" + name +
                   ", ...) after the kernel");
}

std::size_t Module::argument_words(const std::string& name) const {
  entry(name);
  return *static_cast<const unsigned long long*>(symbol(name + "_words"));
}

bool Module::instrumented() const {
  const auto* const flag = static_cast<const int*>(symbol("kdagen_emulator_instrumented"));
  return flag && *flag;
}

}  // namespace kdagen::emulator
