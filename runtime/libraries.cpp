// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// Of the notes of one segment.
std::string build_id_in(std::span<const unsigned char> notes) {
  const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  for (ElfW(Nhdr) note; notes.size() >= sizeof note;) {
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t content = sizeof note + padded(note.n_namesz), end = content + padded(note.n_descsz);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(&notes[sizeof note], "GNU", 4) == 0)
      return fmt::format("{:02x}", fmt::join(notes.subspan(content, note.n_descsz), ""));
    notes = notes.subspan(end);
  }
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

std::string build_of(const void* address) {
  struct Search {
    std::uintptr_t address;
    std::string build;
  } search{reinterpret_cast<std::uintptr_t>(address), ""};
  const auto look = [](dl_phdr_info* object, std::size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
    const auto begin = [&](const ElfW(Phdr) & segment) { return object->dlpi_addr + segment.p_vaddr; };
    const bool holds = std::any_of(segments.begin(), segments.end(), [&](const ElfW(Phdr) & segment) {
      return segment.p_type == PT_LOAD && search.address - begin(segment) < segment.p_memsz;
    });
    if (!holds) return 0;
    for (const ElfW(Phdr) & segment : segments)
      if (segment.p_type == PT_NOTE && search.build.empty())
        search.build = build_id_in({reinterpret_cast<const unsigned char*>(begin(segment)), segment.p_memsz});
    return 1;
  };
  dl_iterate_phdr(look, &search);
  return search.build;
}

}  // namespace kdagen::runtime
