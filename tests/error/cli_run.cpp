// SPDX-License-Identifier: Apache-2.0
// `run` with a damaged or mismatched input: exit code 2, the tensor named, and no output file, not even in part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/run_case.h"

using namespace kdagen::testing;
using kdagen::runtime::DType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

const std::vector<std::string> small{"dim=16", "chunk=8"};

/// A call of rmsnorm's backward on two batch rows of five tokens.
class CliRun : public ::testing::Test {
 protected:
  std::string refused(const RunCase& call, const std::string& on, const std::vector<std::string>& more = {},
                      int code = 2) {
    std::string message;
    const Outcome outcome = call.start("bwd", on, input_, more);
    EXPECT_EQ(outcome.code, code) << on << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << on;
    for (const std::string& name : listing(call.folder()))
      EXPECT_TRUE(name.starts_with("in.") || name.starts_with("rmsnorm_bwd.")) << on << " left " << name;
    return outcome.err;
  }
  /// The same message wherever the pass runs.
  std::string refused_everywhere() {
    const std::string message = refused(call_, "cpu");
    EXPECT_EQ(refused(call_, "emulator"), message);
    return message;
  }
  HostTensor& tensor(const std::string& name) { return input_.tensors.at(name); }
  void set_offsets(const std::vector<double>& offsets, DType dtype = DType::i32) {
    HostTensor tensor(dtype, {static_cast<int64_t>(offsets.size())});
    for (size_t i = 0; i < offsets.size(); ++i) tensor.set(i, offsets[i]);
    input_.tensors["cu_seqlens"] = tensor;
  }

  RunCase call_{"rmsnorm", small, {2, 5, 3}};
  TensorFile input_ = call_.inputs("bwd");
};

class CliRunFile : public ::testing::Test {
 protected:
  std::string refused(const std::string& bytes) {
    const std::string in = (folder_.path() / "in.safetensors").string(),
                      out = (folder_.path() / "out.safetensors").string();
    spill(in, bytes);
    const Outcome outcome =
        kdagen::testing::kdagen({"run", "rmsnorm", "--pass", "fwd", "--on", "cpu", "--in", in, "--out", out});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(listing(folder_.path()), ElementsAre("in.safetensors"));
    return outcome.err;
  }
  Scratch folder_ = scratch();
};

}  // namespace

// T022
TEST_F(CliRun, MissingInput) {
  input_.tensors.erase("dy");
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("\"dy\""), HasSubstr("missing"), HasSubstr("[B,T,H,D]")));
}

// T022
TEST_F(CliRun, UnknownInput) {
  input_.tensors["wieght"] = tensor("weight");
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("\"wieght\""), HasSubstr("did you mean weight?")));
}

TEST_F(CliRun, WrongDtype) {
  tensor("x") = HostTensor(DType::fp16, tensor("x").shape);
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("\"x\""), HasSubstr("fp16"), HasSubstr("bf16")));
}

TEST_F(CliRun, WrongShape) {
  tensor("weight") = HostTensor(DType::f32, {17});
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("\"weight\""), HasSubstr("[17]"), HasSubstr("[D] = [16]")));
  input_ = call_.inputs("bwd");
  tensor("dy") = HostTensor(DType::f32, {30, 16});
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("\"dy\""), HasSubstr("[30,16]"), HasSubstr("[2,5,3,16]")));
}

TEST_F(CliRun, TheTensorAtOddsWithTheOthersIsNamed) {
  const RunCase call("gdn", small, {2, 5, 3});
  const TensorFile good = call.inputs("fwd");
  const auto message = [&](const std::string& name, const kdagen::runtime::Dims& shape) {
    TensorFile spoilt = good;
    spoilt.tensors.at(name) = HostTensor(good.tensors.at(name).dtype, shape);
    const Outcome outcome = call.start("fwd", "cpu", spoilt);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  // whatever place the name has in the alphabet, and whichever size is at odds
  EXPECT_THAT(message("q", {2, 6, 3, 16}), AllOf(HasSubstr("\"q\""), HasSubstr("[2,6,3,16]"), HasSubstr("[2,5,3,16]")));
  EXPECT_THAT(message("a_raw", {2, 4, 3}),
              AllOf(HasSubstr("\"a_raw\""), HasSubstr("[2,4,3]"), HasSubstr("[B,T,H] = [2,5,3]")));
  EXPECT_THAT(message("k", {1, 5, 3, 16}), AllOf(HasSubstr("\"k\""), HasSubstr("[1,5,3,16]"), HasSubstr("[2,5,3,16]")));
  EXPECT_THAT(message("a_raw", {2, 5, 4}), AllOf(HasSubstr("\"a_raw\""), HasSubstr("[2,5,4]"), HasSubstr("[2,5,3]")));
}

TEST_F(CliRun, Offsets) {
  set_offsets({0, 5});
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("cu_seqlens"), HasSubstr("batch")));
  input_ = RunCase("rmsnorm", small, {1, 10, 3}).inputs("bwd");
  set_offsets({0, 5, 3, 10});
  EXPECT_THAT(refused_everywhere(), HasSubstr("cu_seqlens[2] is 3"));
  set_offsets({0, 5, 11});
  EXPECT_THAT(refused_everywhere(), HasSubstr("past the 10 tokens"));
  set_offsets({1, 10});
  EXPECT_THAT(refused_everywhere(), HasSubstr("cu_seqlens[0] is 1"));
  set_offsets({0, 10}, DType::f32);
  EXPECT_THAT(refused_everywhere(), AllOf(HasSubstr("cu_seqlens"), HasSubstr("f32")));
}

TEST_F(CliRun, UnknownTap) {
  for (const char* on : {"cpu", "emulator"})
    EXPECT_THAT(refused(call_, on, {"--tap", "inverse"}), AllOf(HasSubstr("inverse"), HasSubstr("inv")));
}

TEST_F(CliRun, NoFolderForTheOutput) {
  const std::string in = (call_.folder() / "in.safetensors").string();
  kdagen::runtime::write_safetensors(in, input_);
  const Outcome outcome = kdagen::testing::kdagen({"run", "rmsnorm", "--pass", "bwd", "--on", "cpu", "--in", in,
                                                   "--out", (call_.folder() / "none" / "out").string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("none"));
}

TEST_F(CliRun, AnOldOutputStays) {
  input_.tensors.erase("x");
  const std::string in = (call_.folder() / "in.safetensors").string(), out = (call_.folder() / "old").string();
  kdagen::runtime::write_safetensors(in, input_);
  spill(out, "old");
  EXPECT_EQ(kdagen::testing::kdagen(
                {"run", "rmsnorm", "--pass", "bwd", "--on", "cpu", "--in", in, "--out", out, "--set", "dim=16"})
                .code,
            2);
  EXPECT_EQ(slurp(out), "old");
}

TEST_F(CliRun, NoDriver) {
  const std::string in = (call_.folder() / "in.safetensors").string(), out = (call_.folder() / "out").string();
  kdagen::runtime::write_safetensors(in, input_);
  const Outcome outcome = kdagen::testing::kdagen({"run", "rmsnorm", "--pass", "bwd", "--on", "cuda", "--in", in,
                                                   "--out", out, "--set", "dim=16", "--set", "chunk=8"},
                                                  {{"KDAGEN_LIBCUDA", "/nowhere/libcuda.so"}});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/libcuda.so"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

#ifdef KDAGEN_HAS_KDA_K1
TEST_F(CliRun, RefusedSpec) {
  const RunCase call("kda_k1", {"lower_bound=-6"}, {1, 5, 1});
  for (const char* on : {"cpu", "emulator"}) {
    const Outcome outcome = call.start("bwd", on, input_);
    EXPECT_EQ(outcome.code, 2) << on;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("specs/kda_k1.cpp:"), HasSubstr("2^(-g_c)"))) << on;
    EXPECT_FALSE(std::filesystem::exists(call.out()));
  }
}
#endif

TEST_F(CliRunFile, Missing) {
  const Outcome outcome = kdagen::testing::kdagen({"run", "rmsnorm", "--pass", "fwd", "--on", "cpu", "--in",
                                                   "/nowhere/in", "--out", (folder_.path() / "out").string()});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere/in"));
  EXPECT_THAT(listing(folder_.path()), ElementsAre());
}

TEST_F(CliRunFile, Damaged) {
  const RunCase call("rmsnorm", {}, {1, 5, 1});
  const std::string file = (call.folder() / "good").string();
  kdagen::runtime::write_safetensors(file, call.inputs("fwd"));
  const std::string good = slurp(file);
  EXPECT_THAT(refused(""), HasSubstr("in.safetensors"));
  EXPECT_THAT(refused("hello, world"), HasSubstr("in.safetensors"));
  EXPECT_THAT(refused(good.substr(0, good.size() - 1)), HasSubstr("in.safetensors"));
  EXPECT_THAT(refused(good + "x"), HasSubstr("belong to no tensor"));
  std::string damaged = good;
  damaged[9] = '\x01';
  EXPECT_THAT(refused(damaged), HasSubstr("in.safetensors"));
}
