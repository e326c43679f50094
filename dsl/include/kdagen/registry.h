// SPDX-License-Identifier: Apache-2.0
// KDAGEN_SPEC(name, function): how a spec reaches the compiler, linked in or loaded as a plug-in.
#pragma once
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "kdagen/spec.h"

namespace kdagen {

/// A spec as its author registered it.
struct RegisteredSpec {
  std::string name;
  Spec (*make)(const Options&);
  std::string file;
};

/// Specs linked into this program, in no particular order.
inline std::vector<RegisteredSpec>& registered_specs() {
  static std::vector<RegisteredSpec> specs;
  return specs;
}

inline bool register_spec(const char* name, Spec (*make)(const Options&), const char* file) {
  registered_specs().push_back({name, make, file});
  return true;
}

/// Runs the spec function and returns its graph as JSON. Whatever the function throws comes out as SpecError or
/// UsageError.
inline std::string spec_graph(const RegisteredSpec& spec, const Options& options) {
  try {
    const Spec made = spec.make(options);
    if (made.name() != spec.name)
      throw SpecError(spec.file + ":1: error: KDAGEN_SPEC(" + spec.name + ", ...) registers a spec that calls itself " +
                      made.name() + "; use one name");
    return made.graph();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw SpecError(spec.file + ":1: error: the spec function of " + spec.name + " threw: " + e.what());
  } catch (...) {
    throw SpecError(spec.file + ":1: error: the spec function of " + spec.name + " threw something unknown");
  }
}

/// The interface of a plug-in: three C functions and bytes, so that the compiler and the standard library that built
/// it do not matter. Options cross as lines "key=value\n"; keys hold no '=', neither side holds a line break.
///
///   int  kdagen_spec_schema(void);                  the schema it was built for (graph_schema)
///   int  kdagen_spec_graph(const char* options, char** bytes, char** error);
///        0: *bytes is the graph as JSON.  1: *error is a SpecError's text.  2: *error is a UsageError's text.
///   void kdagen_spec_free(char*);                   for *bytes and *error
namespace plugin {

inline char* copy(const std::string& text) {
  char* bytes = static_cast<char*>(std::malloc(text.size() + 1));
  if (bytes) std::memcpy(bytes, text.c_str(), text.size() + 1);
  return bytes;
}

inline std::string write_options(const Options::Values& values) {
  std::string lines;
  for (const auto& [key, value] : values) {
    if (key.find_first_of("=\n") != std::string::npos || value.find('\n') != std::string::npos)
      throw UsageError("option " + key + "=" + value + ": an option is one line KEY=VALUE");
    lines += key + "=" + value + "\n";
  }
  return lines;
}

inline Options::Values read_options(std::string_view lines) {
  Options::Values values;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      values[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  }
  return values;
}

inline int graph(const RegisteredSpec& spec, const char* options, char** bytes, char** error) {
  *bytes = *error = nullptr;
  try {
    *bytes = copy(spec_graph(spec, Options(read_options(options))));
    return 0;
  } catch (const UsageError& e) {
    *error = copy(e.what());
    return 2;
  } catch (const std::exception& e) {
    *error = copy(e.what());
    return 1;
  }
}

}  // namespace plugin
}  // namespace kdagen

#ifdef KDAGEN_LINKED_SPEC
#define KDAGEN_SPEC(name, function) \
  [[maybe_unused]] static const bool kdagen_registered_##name = ::kdagen::register_spec(#name, function, __FILE__);
#else
#define KDAGEN_PLUGIN_API extern "C" __attribute__((visibility("default")))
#define KDAGEN_SPEC(name, function)                                                          \
  KDAGEN_PLUGIN_API int kdagen_spec_schema(void) { return ::kdagen::graph_schema; }          \
  KDAGEN_PLUGIN_API void kdagen_spec_free(char* bytes) { std::free(bytes); }                 \
  KDAGEN_PLUGIN_API int kdagen_spec_graph(const char* options, char** bytes, char** error) { \
    return ::kdagen::plugin::graph({#name, function, __FILE__}, options, bytes, error);      \
  }
#endif
