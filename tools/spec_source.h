// SPDX-License-Identifier: Apache-2.0
// From a spec's name or path to its graph: specs linked in, and .cpp files compiled and loaded as plug-ins.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace kdagen {

/// A spec that is linked in.
struct SpecInfo {
  std::string name;
  std::string summary;
  std::string file;   ///< as in messages: relative to the repository
  std::string graph;  ///< the graph with default options, JSON of docs/architecture.md section 2
};

/// The linked specs by name, in alphabetical order.
std::vector<SpecInfo> shipped_specs();

/// The graph of a shipped spec, or of a .cpp file (anything with a slash or a suffix), as JSON.
/// Throws UsageError for an unknown name, an unreadable file or an option that does not pass, SpecError for what is
/// wrong in the spec, compile errors of the file included, ToolchainError if there is no host compiler.
std::string graph_bytes(const std::string& spec_name_or_path, const std::map<std::string, std::string>& options);

}  // namespace kdagen
