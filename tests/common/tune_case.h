// SPDX-License-Identifier: Apache-2.0
// A pass of a shipped spec for the tuner's tests.
#pragma once
#include <map>
#include <string>

#include "codegen/pipeline.h"
#include "kdagen/error.h"
#include "kdagen/registry.h"

namespace kdagen::testing {

/// `settings`: options of the spec and of the compiler.
inline Compilation compilation_of(const std::string& name, Direction direction,
                                  std::map<std::string, std::string> settings = {}) {
  const CompileOptions options = take_compile_options(settings);
  for (const RegisteredSpec& spec : registered_specs())
    if (spec.name == name) return Compilation(spec_graph(spec, Options(settings)), direction, options);
  throw UsageError("no spec is called " + name);
}

}  // namespace kdagen::testing
