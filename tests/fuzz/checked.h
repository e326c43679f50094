// SPDX-License-Identifier: Apache-2.0
// A whole check of a small spec.
#pragma once
#include <gtest/gtest.h>

#include "codegen/backend.h"
#include "tests/common/spec_graph.h"
#include "tools/check/check.h"

namespace kdagen::test {

/// A check of a spec with inputs and outputs in `dtype`, in the evaluator or of its texts on the emulator, called with
/// `memory`.
inline CheckReport checked(const Body& body, const std::string& dtype, std::map<std::string, std::string> options = {},
                           const std::string& on = "cpu", CallersMemory memory = {}) {
  CheckRequest request;
  request.options = take_compile_options(options);
  request.options.grads = "f32";
  options.insert({{"dim", "16"}, {"chunk", "8"}, {"dtype", dtype}, {"out", dtype}});
  request.graph = graph_of(body, options);
  request.shape = check_shape(std::nullopt, {1, 9, 0, 4, 24}, std::nullopt, 2, 12);
  request.on = on;
  request.emit = [memory](Compilation& compilation) {
    const emit::Emitted emitted = emit_kernel(compilation, "sm_90");
    return emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1, 2, memory);
  };
  return run_check(request);
}

/// The same as an assertion, which tells what failed.
inline testing::AssertionResult passes(const Body& body, const std::string& dtype,
                                       std::map<std::string, std::string> options = {}, const std::string& on = "cpu",
                                       CallersMemory memory = {}) {
  const CheckReport report = checked(body, dtype, std::move(options), on, memory);
  return report.pass() ? testing::AssertionSuccess() : testing::AssertionFailure() << to_text(report);
}

}  // namespace kdagen::test
