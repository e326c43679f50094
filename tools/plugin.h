// SPDX-License-Identifier: Apache-2.0
// Spec plug-ins: a .cpp compiled against the embedded DSL headers, kept in the cache, and asked for its graph.
#pragma once
#include <map>
#include <string>

namespace kdagen {

/// The graph of the spec in the file `path`. A compiled plug-in is found again by its preprocessed text, so a change
/// in the file or in anything it includes counts at once, whatever the files' times say. Throws as graph_bytes does.
std::string plugin_graph(const std::string& path, const std::map<std::string, std::string>& options);

}  // namespace kdagen
