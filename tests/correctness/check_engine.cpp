// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "codegen/backend.h"
#include "tools/check/check.h"
#include "tools/spec_source.h"

namespace kdagen {
namespace {

CheckRequest request_for(const std::string& spec, std::map<std::string, std::string> options = {}) {
  CheckRequest request;
  request.options = take_compile_options(options);
  request.graph = graph_bytes(spec, options);
  request.shape = check_shape(std::nullopt, {1, 19, 0, 33}, std::nullopt, 2);
  request.shape.dead_rows = 3;
  return request;
}

TEST(Check, ANormPassesInBothPassesAndDtypes) {
  CheckReport report = run_check(request_for("rmsnorm"));
  EXPECT_TRUE(report.pass()) << to_text(report);
  std::set<std::string> kinds;
  for (const CheckRun& run : report.runs) kinds.insert(run.direction + " " + run.grads + " " + run.oracle);
  EXPECT_THAT(kinds, testing::UnorderedElementsAre("fwd f64 kernel", "fwd bf16 kernel", "bwd f64 kernel",
                                                   "bwd f32 kernel", "bwd bf16 kernel"));
}

#ifdef KDAGEN_HAS_KDA_K1
TEST(Check, TheConsumersPipelineIsJudgedEndToEnd) {
  CheckRequest request = request_for("kda_k1", {{"anchor", "static"}});
  request.regime = "strong";
  request.do_scale = 1e-6;
  CheckReport report = run_check(request);
  EXPECT_TRUE(report.pass()) << to_text(report);
  auto end_to_end =
      std::find_if(report.runs.begin(), report.runs.end(), [](auto& r) { return r.oracle == "end_to_end"; });
  ASSERT_NE(end_to_end, report.runs.end());
  EXPECT_EQ(end_to_end->pipeline, "bf16");
  EXPECT_EQ(end_to_end->operands, "rounded");
  std::set<std::string> judged;
  for (const Verdict& verdict : end_to_end->outputs) judged.insert(verdict.name);
  EXPECT_THAT(judged, testing::UnorderedElementsAre("dq", "dk", "dg_raw", "dbeta_raw", "dA_log", "ddt_bias"));
}

TEST(Check, EveryStorageOfCotangentsAndEveryHandOver) {
  const std::map<std::string, std::string> cases[] = {{{"handover", "premult4"}, {"upstream", "fp16row"}},
                                                      {{"handover", "fused"}, {"upstream", "bf16"}, {"diag", "1"}},
                                                      {{"gt", "pure"}, {"save", "g_c,e_T"}},
                                                      {{"handover", "premult"}, {"grads", "fp16"}, {"dim", "96"}}};
  for (const auto& options : cases) {
    CheckRequest request = request_for("kda_k1", options);
    request.regime = "mixed";
    request.forward = false;
    CheckReport report = run_check(request);
    EXPECT_TRUE(report.pass()) << to_text(report);
  }
}
/// An output in the memory of the input that it repeats; rows whose sum of squares is no float.
TEST(Check, SeesFaultsThatOrdinaryCallsDoNotReach) {
  const std::pair<std::string, std::string> faults[] = {
      {"", ""},
      {"if (arguments.v_out.data != arguments.v.data && row < tile.rows)", "if (row < tile.rows)"},
      {"finite = squares <= 3.4028235e38f;", "finite = true;"}};
  for (const auto& [right, wrong] : faults) {
    CheckRequest request = request_for("kda_k1");
    request.backward = false;
    request.on = "emulator";
    request.emit = [&, right = right, wrong = wrong](Compilation& compilation) {
      emit::Emitted emitted = emit_kernel(compilation, "sm_90");
      const size_t at = emitted.text.find(right);
      EXPECT_NE(at, std::string::npos) << right;
      if (at != std::string::npos) emitted.text.replace(at, right.size(), wrong);
      return emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1);
    };
    EXPECT_EQ(run_check(request).pass(), right.empty()) << right;
  }
}
#endif

/// The float32 evaluator with a fault in its outputs.
class FaultySubject : public Subject {
 public:
  FaultySubject(Compilation& compilation, std::function<void(Tensors&)> fault)
      : inner_(evaluated_subject(compilation.kernel(Stage::rewritten))), fault_(std::move(fault)) {}
  Tensors run(const Tensors& inputs, const Shape& shape) override {
    Tensors outputs = inner_->run(inputs, shape);
    fault_(outputs);
    return outputs;
  }

 private:
  std::unique_ptr<Subject> inner_;
  std::function<void(Tensors&)> fault_;
};

bool passes_with(std::function<void(Tensors&)> fault) {
  CheckRequest request = request_for("l2norm");
  request.forward = false;
  request.on = "cuda";  // where bounds alone judge
  request.emit = [&](Compilation& compilation) { return std::make_unique<FaultySubject>(compilation, fault); };
  return run_check(request).pass();
}

TEST(Check, FaultsOfTheOutputsFail) {
  EXPECT_TRUE(passes_with([](Tensors&) {}));
  EXPECT_FALSE(passes_with([](Tensors& out) { out.erase("dx"); }));
  EXPECT_FALSE(passes_with([](Tensors& out) { out["dx"].values.pop_back(); }));
  EXPECT_FALSE(passes_with([](Tensors& out) { out["dx"].values[7] = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_FALSE(passes_with([](Tensors& out) { out["dx"].values[7] *= -1; }));
  EXPECT_FALSE(passes_with([](Tensors& out) { out["dx"].values.back() = 1e-30; })) << "a row of no sequence";
  EXPECT_FALSE(passes_with([](Tensors&) { throw CheckError("race on shared memory"); }));
}

TEST(Check, TheReasonOfAFailedRunIsReported) {
  CheckRequest request = request_for("l2norm");
  request.backward = false;
  request.on = "emulator";
  request.emit = [](Compilation& compilation) {
    return std::make_unique<FaultySubject>(compilation, [](Tensors&) { throw CheckError("race on shared memory"); });
  };
  EXPECT_THAT(to_text(run_check(request)), testing::HasSubstr("race on shared memory"));
}

TEST(Check, EmittedTextInEveryLayout) {
  for (const char* layout : {"bthd", "htd"})
    for (const char* upstream_layout : {"rows", "tile"}) {
      CheckRequest request = request_for("l2norm", {{"layout", layout}, {"upstream_layout", upstream_layout}});
      request.on = "emulator";
      request.emit = [](Compilation& compilation) {
        emit::Emitted emitted = emit_kernel(compilation, "sm_90");
        return emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1);
      };
      CheckReport report = run_check(request);
      EXPECT_TRUE(report.pass()) << layout << ' ' << upstream_layout << '\n' << to_text(report);
    }
}

/// The manifest's entries for aligned tensors, or those for any, or the offsets' launch of one type are missing in the
/// text.
bool passes_without(const std::function<void(runtime::LaunchInfo&)>& spoil, CallersMemory memory) {
  CheckRequest request = request_for("l2norm");
  request.backward = false;
  request.on = "emulator";
  request.emit = [&](Compilation& compilation) {
    emit::Emitted emitted = emit_kernel(compilation, "sm_90");
    for (runtime::LaunchInfo& launch : emitted.manifest.launches) spoil(launch);
    return emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1, 1, memory);
  };
  try {
    return run_check(request).pass();
  } catch (const Error&) {
    return false;
  }
}

TEST(Check, TheCallersMemoryDecidesWhatRuns) {
  using runtime::OffsetType, runtime::When;
  auto any = [](runtime::LaunchInfo& launch) {
    if (!launch.entry_any.empty()) launch.entry_any = "missing";
  };
  auto tables_with = [](When when) {
    return [when](runtime::LaunchInfo& launch) {
      if (launch.when == When::packed) launch.when = when;
    };
  };
  auto nothing = [](runtime::LaunchInfo&) {};
  EXPECT_TRUE(passes_without(any, {}));
  EXPECT_FALSE(passes_without(any, {OffsetType::i32, 2}));
  EXPECT_TRUE(passes_without(nothing, {OffsetType::i64, 2}));
  EXPECT_TRUE(passes_without(any, {.strides = 2}));  // gaps of 16 bytes
  EXPECT_FALSE(passes_without(any, {.strides = 1}));
  EXPECT_TRUE(passes_without(nothing, {.strides = 1}));
  EXPECT_TRUE(passes_without(tables_with(When::packed_i32), {OffsetType::i32, 0}));
  EXPECT_FALSE(passes_without(tables_with(When::packed_i32), {OffsetType::i64, 0}));
  EXPECT_FALSE(passes_without(tables_with(When::packed_i64), {OffsetType::i32, 0}));
}

/// 24 bytes are a whole number of vectors of bf16, but not of f32: what the last stage writes is f32.
TEST(Check, HalfAVectorOffParameterGradientsAreWrittenByAnyEntry) {
  CheckRequest request = request_for("rmsnorm", {{"upstream", "bf16"}});
  request.forward = false;
  request.on = "emulator";
  request.emit = [](Compilation& compilation) {
    emit::Emitted emitted = emit_kernel(compilation, "sm_90");
    return emitted_subject(runtime::make_emulated_kernel(emitted.text, emitted.manifest), -1, 2,
                           {runtime::OffsetType::i32, 24});
  };
  CheckReport report = run_check(request);
  EXPECT_TRUE(report.pass()) << to_text(report);
}

TEST(Check, RefusesWhatThereIsNot) {
  CheckRequest request = request_for("l2norm");
  request.regime = "calm";
  EXPECT_THROW(run_check(request), UsageError);
  request = request_for("l2norm");
  request.pipeline = "bf16";
  EXPECT_THROW(run_check(request), UsageError);
  EXPECT_THROW(check_shape(10, {3, 4}, std::nullopt, std::nullopt), UsageError);
  EXPECT_THROW(check_shape(std::nullopt, {3, 4}, 2, std::nullopt), UsageError);
  EXPECT_THROW(check_shape(10, {}, 0, std::nullopt), UsageError);
  EXPECT_THROW(check_shape(10, {}, 1, std::nullopt, 3), UsageError);
}

TEST(Check, Shapes) {
  EXPECT_EQ(default_check_shape().tokens(), 300);
  Shape fixed = check_shape(50, {}, 3, 5);
  EXPECT_FALSE(fixed.packed);
  EXPECT_EQ(fixed.rows(), 150);
  EXPECT_EQ(fixed.heads, 5);
  Shape packed = check_shape(std::nullopt, {0, 7}, std::nullopt, std::nullopt);
  EXPECT_TRUE(packed.packed);
  EXPECT_EQ(packed.tokens(), 7);
  EXPECT_EQ(check_shape(std::nullopt, {0, 7}, std::nullopt, std::nullopt, 40).tokens(), 47);
  EXPECT_EQ(check_shape(std::nullopt, {}, std::nullopt, std::nullopt, 0).tokens(), 295);
}

}  // namespace
}  // namespace kdagen
