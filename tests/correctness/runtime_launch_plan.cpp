// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch_plan.h"

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/sample_call.h"

using namespace kdagen::runtime;
using kdagen::testing::SampleCall;

namespace {

std::shared_ptr<const LaunchPlan> plan_of(const SampleCall& call) {
  return std::make_shared<LaunchPlan>(call.manifest, call.problem, call.tensors, call.bind(), TensorMapMaker{});
}

}  // namespace

TEST(LaunchPlan, WordsAreThoseOfTheWorkspaceHandedOver) {
  const SampleCall call;
  const auto plan = plan_of(call);
  for (const std::uintptr_t base : {std::uintptr_t{1} << 40, std::uintptr_t{3} << 41}) {
    void* workspace = reinterpret_cast<void*>(base);
    EXPECT_EQ(plan->words_for(workspace),
              build_words(call.manifest, call.problem, call.bind(), plan->layout, workspace));
  }
}

TEST(LaunchPlan, EveryWorkspaceIsCheckedOnceItDiffers) {
  SampleCall call;
  const auto plan = plan_of(call);
  void* const good = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
  plan->check_workspace(good, plan->layout.bytes);
  plan->check_workspace(good, plan->layout.bytes);
  EXPECT_THROW(plan->check_workspace(good, plan->layout.bytes - 1), kdagen::UsageError);
  EXPECT_THROW(plan->check_workspace(call["x"].data, plan->layout.bytes), kdagen::UsageError);
  EXPECT_THROW(plan->check_workspace(nullptr, plan->layout.bytes), kdagen::UsageError);
  plan->check_workspace(good, plan->layout.bytes);
}

TEST(LaunchPlans, OnlyAnEqualCallIsFound) {
  LaunchPlans plans;
  const SampleCall call;
  const auto plan = plan_of(call);
  plans.add(plan);
  EXPECT_EQ(plans.find(call.tensors, call.problem), plan);
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const auto differs = [&](auto change) {
      SampleCall other;
      change(other.tensors[i]);
      EXPECT_EQ(plans.find(other.tensors, other.problem), nullptr) << other.tensors[i].name;
    };
    differs([](TensorRef& t) { t.name += "x"; });
    differs([](TensorRef& t) { t.data = static_cast<char*>(t.data) + 256; });
    differs([](TensorRef& t) { t.dtype = t.dtype == DType::f32 ? DType::bf16 : DType::f32; });
    differs([](TensorRef& t) { t.device_ordinal = 1; });
    differs([](TensorRef& t) { t.shape[0] += 1; });
    differs([](TensorRef& t) { t.strides[0] += 1; });
  }
  const auto other_problem = [&](auto change) {
    SampleCall other;
    change(other.problem);
    EXPECT_EQ(plans.find(other.tensors, other.problem), nullptr);
  };
  other_problem([](Problem& p) { p.batch = 1; });
  other_problem([](Problem& p) { p.tokens = 32; });
  other_problem([](Problem& p) { p.heads = 1; });
  other_problem([](Problem& p) { p.sequences = 1; });
  other_problem([](Problem& p) { p.cu_seqlens = &p; });
  other_problem([](Problem& p) { p.offsets = OffsetType::i32; });
  SampleCall fewer;
  fewer.tensors.pop_back();
  EXPECT_EQ(plans.find(fewer.tensors, fewer.problem), nullptr);
}

TEST(LaunchPlans, TheLongestUnusedPlanGoesFirst) {
  LaunchPlans plans;
  const auto moved = [](std::size_t i) {
    SampleCall call;
    call["beta"].data = reinterpret_cast<void*>((i + 2) << 32);
    return call;
  };
  for (std::size_t i = 0; i < LaunchPlans::capacity; ++i) plans.add(plan_of(moved(i)));
  EXPECT_NE(plans.find(moved(0).tensors, moved(0).problem), nullptr);  // used again: 1 is now the oldest
  plans.add(plan_of(moved(LaunchPlans::capacity)));
  EXPECT_EQ(plans.find(moved(1).tensors, moved(1).problem), nullptr);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}, LaunchPlans::capacity})
    EXPECT_NE(plans.find(moved(i).tensors, moved(i).problem), nullptr) << i;
}
