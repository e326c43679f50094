// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kdagen/error.h>
#include <nlohmann/json.hpp>

#include "specs/workloads/tensor.h"
#include "tools/judge/report.h"

namespace kdagen {
namespace {

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

Criteria declared(double rel, double max) {
  Criteria criteria;
  criteria.dtype = "f64";
  criteria.rel_l2 = rel;
  criteria.max_rel = max;
  return criteria;
}

TEST(Judge, FiguresOfAKnownCase) {
  // Error (0,.5), reference (3,4): .5/5 and .5/4.
  std::vector<double> reference{3, 4}, actual{3, 4.5};
  Verdict verdict = judge("y", reference, &actual, declared(0.11, 0.13));
  EXPECT_DOUBLE_EQ(verdict.rel_l2, 0.1);
  EXPECT_DOUBLE_EQ(verdict.max_rel, 0.125);
  EXPECT_NEAR(verdict.rel_bound, 0.11, 1e-12);
  EXPECT_NEAR(verdict.max_bound, 0.13, 1e-12);
  EXPECT_TRUE(verdict.ok);
  EXPECT_FALSE(verdict.kappa.has_value());
  EXPECT_FALSE(judge("y", reference, &actual, declared(0.09, 0.13)).ok);
  EXPECT_FALSE(judge("y", reference, &actual, declared(0.11, 0.12)).ok);
}

TEST(Judge, NanInfinityAndAbsenceNeverPass) {
  std::vector<double> reference{1, 2};
  for (double bad : {nan, infinity, -infinity}) {
    for (std::vector<double> actual : {std::vector<double>{bad, 2}, std::vector<double>{1, bad}}) {
      EXPECT_FALSE(judge("y", reference, &actual, declared(1e300, 1e300)).ok) << bad;
      EXPECT_FALSE(judge("y", actual, &actual, declared(1, 1)).ok) << "reference " << bad;
    }
  }
  EXPECT_FALSE(judge("y", reference, &reference, declared(nan, 1)).ok);
  EXPECT_FALSE(judge("y", reference, &reference, declared(1, infinity)).ok);
  EXPECT_TRUE(judge("y", reference, &reference, declared(1, 1)).ok);
  Verdict absent = judge("y", reference, nullptr, declared(1, 1));
  EXPECT_FALSE(absent.ok);
  EXPECT_TRUE(std::isnan(absent.rel_l2));
}

TEST(Judge, ZeroReference) {
  std::vector<double> zero{0, 0}, small{1e-9, 0}, errors{2e-9, 0};
  EXPECT_TRUE(judge("y", zero, &zero, declared(1e-6, 1e-6)).ok);
  EXPECT_FALSE(judge("y", zero, &small, declared(1e-6, 1e-6)).ok);
  Criteria analysed;
  analysed.dtype = "f64";
  analysed.errors = &errors;
  EXPECT_TRUE(judge("y", zero, &small, analysed).ok);
  analysed.factor = 0.25;
  EXPECT_FALSE(judge("y", zero, &small, analysed).ok);
  std::vector<double> none;
  EXPECT_TRUE(judge("y", none, &none, declared(1e-6, 1e-6)).ok);
}

TEST(Judge, TinyNumbersDoNotUnderflow) {
  std::vector<double> reference{0x1p-700, -0x1p-701}, actual{0x1.1p-700, -0x1p-701}, right = reference;
  EXPECT_FALSE(judge("y", reference, &actual, declared(1e-3, 1e-3)).ok);
  EXPECT_NEAR(judge("y", reference, &actual, declared(1e-3, 1e-3)).max_rel, 1.0 / 16, 1e-12);
  EXPECT_TRUE(judge("y", reference, &right, declared(1e-3, 1e-3)).ok);
}

TEST(Judge, AnalysisAndDeclaredBoundsBothHold) {
  std::vector<double> reference{1, 1}, actual{1 + 1e-3, 1}, errors{1e-3, 1e-3};
  Criteria criteria = declared(1, 1);
  criteria.errors = &errors;
  criteria.factor = 2;
  Verdict verdict = judge("y", reference, &actual, criteria);
  EXPECT_TRUE(verdict.ok);
  EXPECT_NEAR(verdict.rel_bound, 2e-3, 1e-12);
  EXPECT_NEAR(*verdict.kappa, 1e-3 * 0x1p24, 1e-6);
  criteria.rel_l2 = 1e-4;
  EXPECT_FALSE(judge("y", reference, &actual, criteria).ok);
  criteria.rel_l2 = 1;
  criteria.factor = 0.5;
  EXPECT_FALSE(judge("y", reference, &actual, criteria).ok);
}

TEST(Judge, AWrongSmallHeadDoesNotHideBehindALargeOne) {
  // [2 rows, 2 heads, 2 columns]: head 1 is a million times smaller and wrong by 100 %.
  std::vector<double> reference{1, 1, 1e-6, 1e-6, 1, 1, 1e-6, 1e-6}, actual = reference, errors(8);
  for (size_t i = 0; i < 8; ++i) errors[i] = 1e-5 * reference[i];
  actual[2] = 2e-6;
  Criteria criteria;
  criteria.dtype = "f64";
  criteria.errors = &errors;
  criteria.layout = {2, 2};
  Verdict verdict = judge("y", reference, &actual, criteria);
  EXPECT_FALSE(verdict.ok);
  EXPECT_NEAR(verdict.rel_l2, 0.5, 1e-12);
  EXPECT_THAT(verdict.note, testing::HasSubstr("head 1"));
  criteria.layout = {};
  EXPECT_TRUE(judge("y", reference, &actual, criteria).ok);
}

TEST(Judge, StorageAdditions) {
  Random random(1, "storage");
  std::vector<double> reference;
  for (int i = 0; i < 20000; ++i) reference.push_back(random.normal());
  EXPECT_NEAR(storage_rel(reference, "bf16"), 1.8e-3, 1e-6);
  EXPECT_NEAR(storage_rel(reference, "fp16"), 2.25e-4, 1e-7);
  EXPECT_NEAR(storage_rel(reference, "f32"), 1.8e-3 / 65536, 1e-11);
  EXPECT_EQ(storage_rel(reference, "bf16", 2.4e-3), 2.4e-3);
  EXPECT_NEAR(storage_max(reference, "bf16"), 4e-3, 1e-9);
  for (const char* dtype : {"bf16", "fp16", "f32"}) {
    HostTensor stored = stored_as({"y", "f64", {20000}, reference}, dtype);
    Criteria criteria = declared(0, 0);
    criteria.dtype = dtype;
    EXPECT_TRUE(judge("y", reference, &stored.values, criteria).ok) << dtype;
    for (double& value : stored.values) value *= 1.01;
    EXPECT_FALSE(judge("y", reference, &stored.values, criteria).ok) << dtype;
  }
  // One element: its rounding error may be nearly a whole unit roundoff, more than the mean.
  std::vector<double> single{1 + 0x1.fp-9}, rounded{1};
  Criteria criteria = declared(0, 0);
  criteria.dtype = "bf16";
  EXPECT_TRUE(judge("y", single, &rounded, criteria).ok);
}

TEST(Judge, UnderflowOfTheStorageIsAllowedFor) {
  std::vector<double> reference{0x1.8p-26, 0x1.1p-25}, stored{0, 0x1p-24};
  Criteria criteria = declared(0, 0);
  criteria.dtype = "fp16";
  EXPECT_TRUE(judge("y", reference, &stored, criteria).ok);
  std::vector<double> wrong{0, 0x1p-23};
  EXPECT_FALSE(judge("y", reference, &wrong, criteria).ok);
}

TEST(Judge, AHeadThatUnderflowsIsAllowedTo) {
  std::vector<double> reference{1, 1, 0x1.8p-26, 0x1.8p-26}, stored{1, 1, 0, 0}, errors{1e-9, 1e-9, 1e-15, 1e-15};
  Criteria criteria;
  criteria.dtype = "fp16";
  criteria.errors = &errors;
  criteria.layout = {2, 2};
  EXPECT_TRUE(judge("y", reference, &stored, criteria).ok);
  criteria.dtype = "bf16";
  EXPECT_FALSE(judge("y", reference, &stored, criteria).ok);
}

TEST(Judge, ParameterRuleIsPerHead) {
  // Two heads of two features; head 1's sum passes through zero, its terms do not.
  std::vector<double> reference{5, 5, 0, 1e-9}, terms{4, 3, 4, 3}, actual{5 + 2e-5, 5, 2e-5, 1e-9};
  Criteria criteria;
  criteria.layout = {2, 2};
  criteria.terms = &terms;
  criteria.terms_factor = {6 * 1e-6};  // allows 6e-6 * 5 = 3e-5 a head
  Verdict verdict = judge("dw", reference, &actual, criteria);
  EXPECT_TRUE(verdict.ok);
  EXPECT_NEAR(verdict.rel_bound, 6e-6, 1e-7);
  actual[2] = 4e-5;
  verdict = judge("dw", reference, &actual, criteria);
  EXPECT_FALSE(verdict.ok);
  EXPECT_THAT(verdict.note, testing::HasSubstr("head 1"));
  // A head of its own precision: what is too much for head 1 would pass in head 0.
  criteria.terms_factor = {6 * 1e-6, 1e-5};
  EXPECT_TRUE(judge("dw", reference, &actual, criteria).ok);
  criteria.terms_factor = {1e-5, 6 * 1e-6};
  EXPECT_FALSE(judge("dw", reference, &actual, criteria).ok);
  actual[2] = nan;
  EXPECT_FALSE(judge("dw", reference, &actual, criteria).ok);
}

TEST(Judge, ADeclaredBoundOfAParameterHoldsBesideItsTerms) {
  std::vector<double> reference{3, 4}, terms{3, 4}, actual{3, 4 + 4e-5};
  Criteria criteria;
  criteria.terms = &terms;
  criteria.terms_factor = {1e-5};
  EXPECT_TRUE(judge("dw", reference, &actual, criteria).ok);
  criteria.rel_l2 = 9e-6;
  EXPECT_TRUE(judge("dw", reference, &actual, criteria).ok);
  criteria.rel_l2 = 7e-6;
  EXPECT_FALSE(judge("dw", reference, &actual, criteria).ok);
}

TEST(Judge, BoundsOfHeads) {
  std::vector<double> reference{3, 4, 0.5, 0, 0, 0}, errors{3e-6, 4e-6, 1e-6, 0, 0, 0};
  Criteria criteria;
  criteria.errors = &errors;
  criteria.factor = 2;
  criteria.layout = {3, 2};
  EXPECT_THAT(head_bounds(reference, criteria),
              testing::ElementsAre(testing::DoubleNear(2e-6, 1e-12), testing::DoubleNear(4e-6, 1e-12), 0));
  criteria.rel_l2 = 3e-6;
  EXPECT_THAT(head_bounds(reference, criteria), testing::ElementsAre(testing::DoubleNear(2e-6, 1e-12), 3e-6, 0));
}

TEST(Judge, WhatNoProgramCanAvoidIsAllowed) {
  std::vector<double> reference{3, 4}, actual{3, 4.5}, unavoidable{0, 0.49}, less{0, 0.4};
  Criteria criteria = declared(1e-3, 1e-3);
  EXPECT_FALSE(judge("y", reference, &actual, criteria).ok);
  criteria.unavoidable = &less;
  EXPECT_FALSE(judge("y", reference, &actual, criteria).ok);
  criteria.unavoidable = &unavoidable;
  EXPECT_TRUE(judge("y", reference, &actual, criteria).ok);
}

TEST(Judge, RowsOfNoSequenceMustBeExactlyZero) {
  std::vector<double> reference{1, 0}, actual{1, 1e-300};
  std::vector<char> must_be_zero{0, 1};
  Criteria criteria = declared(1, 1);
  EXPECT_TRUE(judge("y", reference, &actual, criteria).ok);
  criteria.must_be_zero = &must_be_zero;
  EXPECT_FALSE(judge("y", reference, &actual, criteria).ok);
  actual[1] = -0.0;
  EXPECT_TRUE(judge("y", reference, &actual, criteria).ok);
}

TEST(Judge, RefusesToJudgeWithoutARule) {
  std::vector<double> reference{1, 0}, shorter{1};
  EXPECT_THROW(judge("y", reference, &reference, Criteria{}), KdagenBug);
  EXPECT_THROW(judge("y", reference, &shorter, declared(1, 1)), KdagenBug);
}

TEST(Report, JsonSchema) {
  std::vector<double> reference{3, 4}, actual{3, nan};
  CheckReport report{"norm", "cpu", {}};
  EXPECT_FALSE(report.pass());
  CheckRun run{"bwd", "typical", "f32", "exact", "exact", 1e-6, "kernel", "", {}};
  run.outputs.push_back(judge("dx", reference, &reference, declared(0.1, 0.1)));
  report.runs.push_back(run);
  EXPECT_TRUE(report.pass());
  report.runs[0].outputs.push_back(judge("dy", reference, &actual, declared(0.1, 0.1)));
  EXPECT_FALSE(report.pass());
  nlohmann::ordered_json json = to_json(report);
  EXPECT_EQ(
      json.dump(),
      R"({"spec":"norm","pass":false,"on":"cpu","runs":[{"direction":"bwd","regime":"typical","grads":"f32",)"
      R"("operands":"exact","pipeline":"exact","do_scale":1e-06,"oracle":"kernel","outputs":[)"
      R"({"name":"dx","rel_l2":0.0,"rel_bound":0.1,"max_rel":0.0,"max_bound":0.1,"kappa":null,"ok":true},)"
      R"({"name":"dy","rel_l2":null,"rel_bound":0.1,"max_rel":null,"max_bound":0.1,"kappa":null,"ok":false}]}]})");
  std::string text = to_text(report);
  EXPECT_THAT(text, testing::HasSubstr("norm on cpu: FAIL, 1 of 2 outputs"));
}

}  // namespace
}  // namespace kdagen
