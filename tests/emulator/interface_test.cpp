// SPDX-License-Identifier: Apache-2.0
// Wrong uses are refused with a message that says what would pass; what was judged in one run is forgotten in the next.
#include <gmock/gmock.h>

#include "kdagen/error.h"
#include "support.h"

namespace kdagen::emulator::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class ErrorType, class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error of that class";
  return "";
}

std::vector<std::string> run_copy(Dim3 block, std::size_t word_count, const std::vector<Buffer>& buffers,
                                  bool module_checked = true) {
  const std::vector<std::int64_t> words(word_count);
  return run(*load_kernels("prelude.cu", module_checked), "copy_any", {0}, block, 0, words.data(), word_count, buffers,
             Options{});
}

TEST(Refused, UnknownEntry) {
  const auto module = load_kernels("prelude.cu", true);
  EXPECT_THAT(message_of<UsageError>([&] { module->entry("nothing"); }), HasSubstr("KD_ENTRY(nothing, ...)"));
}

TEST(Refused, WrongWordCount) {
  EXPECT_THAT(message_of<UsageError>([] { run_copy({64}, 5, {}); }), HasSubstr("takes 6 argument words, not 5"));
}

TEST(Refused, TooManyThreads) {
  EXPECT_THAT(message_of<UsageError>([] { run_copy({64, 17}, 6, {}); }), HasSubstr("1 to 1024 would pass"));
}

TEST(Refused, CheckOfAnUncheckedModule) {
  EXPECT_THAT(message_of<UsageError>([] { run_copy({64}, 6, {}, false); }), HasSubstr("compile it with check"));
}

TEST(Refused, OverlappingBuffers) {
  float data[8];
  EXPECT_THAT(message_of<UsageError>([&] { run_copy({64}, 6, {{data, 20, "a"}, {data + 4, 16, "b"}}); }),
              HasSubstr("buffers a and b overlap"));
  EXPECT_THAT(run_copy({64}, 6, {{data, 16, "a"}, {data + 4, 16, "b"}}), IsEmpty());
}

TEST(Refused, TextThatDoesNotCompile) {
  const auto message = message_of<ToolchainError>([] { load_text("int x = \"\";\n", "broken", true); });
  EXPECT_THAT(message, HasSubstr(": error: "));
}

TEST(Refused, MissingFile) {
  EXPECT_THAT(message_of<ToolchainError>([] { Module("/nowhere/kernel.so"); }), HasSubstr("/nowhere/kernel.so"));
}

TEST(Runs, AreSeparate) {
  Sample sample(16);
  EXPECT_THAT(sample.run("blocks_write_one_place"), Contains(HasSubstr("race between blocks")));
  EXPECT_THAT(sample.run("none"), IsEmpty());
}

TEST(Runs, NeedWholeWarpsForExchange) {
  GuardedArray<unsigned> where(48 * 6);
  GuardedArray<float> from_float(48);
  GuardedArray<std::int64_t> from_i64(48);
  const std::vector<std::int64_t> words = {word(where.data()), word(from_float.data()), word(from_i64.data())};
  const std::vector<Buffer> buffers = {{where.data(), where.size_bytes(), "where"},
                                       {from_float.data(), from_float.size_bytes(), "from_float"},
                                       {from_i64.data(), from_i64.size_bytes(), "from_i64"}};
  const auto reports =
      run(*load_kernels("prelude.cu", true), "identity", {1}, {48}, 0, words.data(), words.size(), buffers, Options{});
  EXPECT_THAT(reports, Contains(HasSubstr("lanes 0x0000ffff of warp 1 only; the others do not exist")));
}

TEST(Runs, AreNothingForAnEmptyGrid) { EXPECT_THAT(run_copy({64}, 6, {}), IsEmpty()); }

}  // namespace
}  // namespace kdagen::emulator::testing
