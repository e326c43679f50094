// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "runtime/trust.h"

namespace kdagen::runtime {
namespace {

/// Where the loader looks for a name that this code hands to it: its own copy of LD_LIBRARY_PATH, which the variable's
/// later changes do not reach, and the system's folders.
std::vector<std::string> searched_folders() {
  std::vector<std::string> folders;
  const std::unique_ptr<void, int (*)(void*)> self(dlopen(nullptr, RTLD_LAZY), dlclose);
  Dl_serinfo size;
  if (!self || dlinfo(self.get(), RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::max_align_t> memory(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const search = reinterpret_cast<Dl_serinfo*>(memory.data());
  *search = size;
  if (dlinfo(self.get(), RTLD_DI_SERINFO, search) != 0) return folders;
  for (unsigned i = 0; i < search->dls_cnt; ++i) folders.emplace_back(search->dls_serpath[i].dls_name);
  return folders;
}

std::string name_problem(const std::string& name) {
  for (const std::string& folder : searched_folders())
    if (const std::string problem = search_problem(folder); !problem.empty())
      return fmt::format("the loader would look for {} in \"{}\" too, and {}; take that entry out of LD_LIBRARY_PATH",
                         name, folder, problem);
  return "";
}

}  // namespace

void* open_library(const std::string& name, std::string& reason) {
  const bool is_path = name.find('/') != std::string::npos;
  std::error_code ignored;
  reason.clear();
  if (!is_path) reason = name_problem(name);
  if (is_path && std::filesystem::exists(name, ignored)) reason = execution_problem(name);
  if (!reason.empty()) return nullptr;
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) reason = dlerror();
  return library;
}

}  // namespace kdagen::runtime
