// SPDX-License-Identifier: Apache-2.0
#include <barrier>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "runtime/kernel.h"
#include "tests/common/row_scale.h"
#include "tests/common/row_scale_case.h"
#include "tests/common/scratch.h"

using namespace kdagen::runtime;
using namespace kdagen::testing;

namespace {

Kernel& row_scale() {
  static const std::unique_ptr<Kernel> kernel = make_emulated_kernel(row_scale_text, row_scale_manifest());
  return *kernel;
}

void launch(RowScaleCase& data, unsigned order_seed = 1) {
  LaunchOptions options;
  options.order_seed = order_seed;
  row_scale().launch(data.tensors(), data.problem, options);
}

}  // namespace

TEST(EmulatedKernel, FixedLengthWithTails) {
  for (const std::int64_t tokens : {1, 3, 4, 5, 9}) {
    RowScaleCase data(2, tokens, 3);
    launch(data, static_cast<unsigned>(tokens));
    data.expect_right();
  }
}

TEST(EmulatedKernel, PackedWithEmptySequencesAndDeadRows) {
  for (const OffsetType type : {OffsetType::i32, OffsetType::i64}) {
    RowScaleCase data(1, 21, 2);
    data.pack({0, 0, 5, 5, 6, 13, 13}, type);
    launch(data);
    data.expect_right();
  }
}

// Strides that are no multiple of four elements, and pointers moved by one element, take the other entry; the emulator
// would report a misaligned access otherwise.
// T046
TEST(EmulatedKernel, EveryAlignment) {
  for (const std::int64_t shift : {0, 1, 2})
    for (const std::int64_t spread : {0, 1, 4}) {
      RowScaleCase data(2, 6, 2, shift, spread);
      launch(data);
      data.expect_right();
    }
}

// T043
TEST(EmulatedKernel, NothingToDoZeroesTheOutputs) {
  RowScaleCase none(0, 5, 2), no_tokens(2, 0, 2), no_sequences(1, 5, 2);
  no_sequences.pack({0}, OffsetType::i32);
  for (RowScaleCase* data : {&none, &no_tokens, &no_sequences}) {
    launch(*data);
    for (const float value : data->total) EXPECT_EQ(value, 0.0f);
  }
  no_sequences.expect_right();
}

// T091
TEST(EmulatedKernel, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      RowScaleCase data(1, 5 + i, 2);
      launch(data, static_cast<unsigned>(i));
      data.expect_right();
    });
  for (std::thread& thread : threads) thread.join();
}

// Two kernels of one text on a cold cache, four threads each with sizes and alignments of their own. The compiler hands
// over what was compiled before, and counts.
TEST(EmulatedKernel, T091ThreadsOnAColdKernel) {
  namespace fs = std::filesystem;
  const Scratch place = scratch();
  CompileOptions compiled;
  compiled.kernel = row_scale_manifest().kernel;
  compiled.emulator_check = KernelOptions().emulator_check;
  for (const std::string variant : {"-DKDAGEN_VARIANTS=1", "-DKDAGEN_VARIANTS=2"}) {
    compiled.extra = {variant};
    spill(place.path() / variant, compile_host(row_scale_text, compiled).image);
  }
  const std::string folder = place.path().string(), count = folder + "/count";
  spill(place.path() / "c++", "#!/bin/sh\n[ \"$1\" = --version ] && { echo stand-in; exit; }\necho asked >> " + count +
                                  "\nfor word; do\n  case $word in -DKDAGEN_VARIANTS=*) variant=$word ;; esac\n"
                                  "  [ \"$last\" = -o ] && out=$word\n  last=$word\ndone\ncp \"" +
                                  folder + "/$variant\" \"$out\"\n");
  fs::permissions(place.path() / "c++", fs::perms::owner_all);
  const WithVariable stand_in("KDAGEN_HOST_CXX", folder + "/c++");
  constexpr int threads_a_kernel = 4, rounds = 50;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    fs::remove(count);
    const WithVariable named("KDAGEN_CACHE_DIR", folder + "/cache " + std::to_string(round));
    Cache cache(choose_cache_directory());
    KernelOptions options;
    options.cache = &cache;
    const auto first = make_emulated_kernel(row_scale_text, row_scale_manifest(), options),
               second = make_emulated_kernel(row_scale_text, row_scale_manifest(), options);
    std::barrier start(2 * threads_a_kernel);
    std::vector<std::thread> threads;
    for (int i = 0; i < 2 * threads_a_kernel; ++i)
      threads.emplace_back([&, i] {
        RowScaleCase data(1 + i % 3, 1 + (round + 3 * i) % 11, 1 + i % 2, i / 2 % 2);
        start.arrive_and_wait();
        (i % 2 ? second : first)->launch(data.tensors(), data.problem);
        data.expect_right();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(slurp(count), "asked\nasked\n");  // for either variant
  }
}

TEST(EmulatedKernel, FaultyTextIsReportedAndWritesNothing) {
  std::string text = row_scale_text;
  text.replace(text.find("  block_barrier();"), 18, "");
  const auto faulty = make_emulated_kernel(text, row_scale_manifest());
  RowScaleCase data(1, 8, 1);
  const std::vector<float> before = data.y;
  try {
    faulty->launch(data.tensors(), data.problem);
    FAIL() << "the missing barrier went unnoticed";
  } catch (const kdagen::CheckError& error) {
    EXPECT_NE(std::string(error.what()).find("row_scale_fixed"), std::string::npos) << error.what();
  }
  EXPECT_EQ(data.y, before);
}

TEST(EmulatedKernel, AnIndexIntoADimensionOfOneElementIsReported) {
  std::string text = row_scale_text;
  const std::string index = "a.x.at(place.batch, ";
  text.replace(text.find(index), index.size(), "a.x.at(place.batch + 1, ");
  const auto faulty = make_emulated_kernel(text, row_scale_manifest());
  RowScaleCase data(1, 8, 1);
  EXPECT_THROW(faulty->launch(data.tensors(), data.problem), kdagen::CheckError);
}

TEST(EmulatedKernel, OffsetsThatFallOrEndPastTheTokensAreRefused) {
  for (const std::vector<std::int64_t>& offsets :
       {std::vector<std::int64_t>{0, 5, 3}, std::vector<std::int64_t>{1, 5}, std::vector<std::int64_t>{0, 9}}) {
    RowScaleCase data(1, 8, 1);
    data.pack(offsets, OffsetType::i64);
    EXPECT_THROW(launch(data), kdagen::UsageError);
  }
}
