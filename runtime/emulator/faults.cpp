// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/faults.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "kdagen/error.h"
#include "runtime/process.h"

namespace kdagen::emulator {
namespace {

using PlaceOf = std::map<const void*, std::string>;

/// "path/file:12 (discriminator 3)" -> "12", and nothing for the headers whose functions were inlined into the kernel.
std::string kernel_line(const std::string& frame) {
  const std::size_t colon = frame.rfind(':');
  if (colon == std::string::npos) return "";
  const std::string file = frame.substr(0, colon);
  for (const char* header : {"kdagen/device.cuh", "kdagen/staging.cuh", "kdagen/sums.cuh", "kdagen/approximations.cuh",
                             "kdagen/fixed_point.cuh", "kdagen/emulator.h"})
    if (file.ends_with(header)) return "";
  const std::string number = frame.substr(colon + 1, frame.find_first_not_of("0123456789", colon + 1) - colon - 1);
  return number == "0" ? "" : number;
}

/// Asks addr2line, once for all places. Without it, or without debug information, places are offsets in the module.
PlaceOf find_places(const std::vector<const void*>& pcs, const Module& module) {
  PlaceOf places;
  std::vector<std::string> command = {"addr2line", "-a", "-i", "-e", module.path()};
  for (const void* pc : pcs) {
    // A return address belongs to the instruction after the call, maybe to the next line.
    command.push_back(fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(pc) - 1 - module.image().first));
    places[pc] = fmt::format("offset {} of {}", command.back(), module.path());
  }
  std::size_t asked = 0;
  bool found = true;
  std::istringstream lines;
  try {
    lines.str(runtime::run_process(command).output);
  } catch (const ToolchainError&) {
    lines.str("");  // no program that knows source lines: offsets will do
  }
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0x")) {  // -a prints each address in front of its frames, innermost first
      found = ++asked > pcs.size();
    } else if (!found) {
      const std::string number = kernel_line(line);
      if (number.empty()) continue;
      places[pcs[asked - 1]] = "line " + number;
      found = true;
    }
  }
  return places;
}

}  // namespace

void FaultLog::add(Fault fault, int about) {
  if (full() || !seen_.insert({fault.kind, fault.pc, fault.earlier_pc, about}).second) return;
  faults_.push_back(std::move(fault));
}

std::vector<std::string> FaultLog::reports(const Module& module) const {
  std::vector<const void*> pcs;
  for (const Fault& fault : faults_)
    for (const void* pc : {fault.pc, fault.earlier_pc})
      if (pc) pcs.push_back(pc);
  const PlaceOf places = pcs.empty() ? PlaceOf{} : find_places(pcs, module);
  const auto place = [&](const void* pc) { return pc ? " at " + places.at(pc) : std::string(); };
  std::vector<std::string> texts;
  for (const Fault& fault : faults_)
    texts.push_back(fault.text + place(fault.pc) + fault.continuation + place(fault.earlier_pc) + fault.end);
  return texts;
}

}  // namespace kdagen::emulator
