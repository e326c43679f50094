// SPDX-License-Identifier: Apache-2.0
// What `check` asks of a text on the emulator beyond bounds: its bits, its entries for any alignment and 64-bit
// offsets, and rows near zero.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kdagen/error.h>

#include "codegen/backend.h"
#include "tools/check/check.h"
#include "tools/spec_source.h"

namespace kdagen {
namespace {

struct Edit {
  std::string before, after;
};

std::string with_edit(std::string text, const Edit& edit) {
  const size_t at = text.rfind(edit.before);
  if (at == std::string::npos) throw KdagenBug("the text has no " + edit.before);
  return text.replace(at, edit.before.size(), edit.after);
}

CheckReport check_edited(const std::string& spec, const Edit& edit, const std::string& type = "bf16") {
  CheckRequest request;
  std::map<std::string, std::string> options{{"dtype", type}, {"out", type}};
  request.options = take_compile_options(options);
  request.graph = graph_bytes(spec, options);
  request.shape = check_shape(std::nullopt, {1, 19, 0, 33}, std::nullopt, 2);
  request.backward = false;
  request.on = "emulator";
  request.emit = [&](Compilation& compilation) {
    emit::Emitted emitted = emit_kernel(compilation, "sm_90");
    return emitted_subject(runtime::make_emulated_kernel(with_edit(emitted.text, edit), emitted.manifest), -1);
  };
  return run_check(request);
}

bool is_about_bits(const CheckRun& run) { return run.comparison.find("bit for bit") != std::string::npos; }
bool is_about_small_rows(const CheckRun& run) { return run.comparison.find("near zero") != std::string::npos; }

TEST(CheckTexts, AnotherOrderOrRoundingFailsByItsBitsOnly) {
  const Edit edits[] = {
      {"fmaf(x[2 * j + 1], y[2 * j + 1], x[2 * j] * y[2 * j])", "x[2 * j + 1] * y[2 * j + 1] + x[2 * j] * y[2 * j]"},
      {"(pair[0] + pair[1]) + (pair[2] + pair[3])", "((pair[0] + pair[1]) + pair[2]) + pair[3]"},
      {"lane_xor(sum, 1);", "lane_xor(sum, 2);"}};
  for (const Edit& edit : {edits[0], edits[1]}) {
    const CheckReport report = check_edited("l2norm", edit, "f32");  // products of bf16 numbers are exact
    bool bits_passed = true;
    for (const CheckRun& run : report.runs) {
      if (is_about_bits(run))
        bits_passed &= run.ok();
      else
        EXPECT_TRUE(run.ok()) << to_text(report);
    }
    EXPECT_FALSE(bits_passed) << edit.after;
    EXPECT_FALSE(report.pass());
    EXPECT_THAT(to_text(report), testing::HasSubstr("numbers differ, first element"));
  }
  EXPECT_FALSE(check_edited("l2norm", edits[2]).pass());
  EXPECT_TRUE(check_edited("l2norm", {"lane_xor(sum, 1);", "lane_xor(sum, 1) ;"}).pass());
}

TEST(CheckTexts, RowsNearZeroShowTheEpsilon) {
  const CheckReport report = check_edited("l2norm", {"+ eps", "- eps"});
  bool seen = false;
  for (const CheckRun& run : report.runs) {
    if (is_about_bits(run)) continue;
    EXPECT_EQ(run.ok(), !is_about_small_rows(run) || run.grads == "f64") << to_text(report);
    seen |= is_about_small_rows(run);
  }
  EXPECT_TRUE(seen);
}

TEST(CheckTexts, EntriesForAnyAlignmentAndWideOffsetsRun) {
  const CheckReport aligned = check_edited("l2norm", {"l2norm_fwd_tiles<false>", "l2norm_fwd_tiles<true>"});
  EXPECT_FALSE(aligned.pass());
  EXPECT_THAT(to_text(aligned), testing::HasSubstr("l2norm_fwd_any is faulty"));
  const CheckReport narrow = check_edited(
      "l2norm", {"Offsets{arguments.cu_seqlens, arguments.offset_bytes,", "Offsets{arguments.cu_seqlens, 4,"});
  EXPECT_FALSE(narrow.pass());
}

}  // namespace
}  // namespace kdagen
