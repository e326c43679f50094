// SPDX-License-Identifier: Apache-2.0
// Without libFuzzer: seeds are accepted, and seeds that were damaged at random are accepted or refused, with nothing
// worse.
#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "kdagen/error.h"
#include "tests/common/scratch.h"
#include "tests/fuzz/inputs/json_changes.h"
#include "tests/fuzz/inputs/readers.h"

namespace kdagen::testing {
namespace {

class Inputs : public ::testing::TestWithParam<Reader> {
 protected:
  /// False also for what is refused by an exception.
  static bool accepts(const std::string& bytes) {
    try {
      return GetParam().accepts(bytes);
    } catch (const KdagenBug& error) {
      ADD_FAILURE() << error.what() << "\n" << bytes.substr(0, 4000);
    } catch (const Error& error) {
      EXPECT_TRUE(error.exit_code() == 2 || error.exit_code() == 3) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << bytes.substr(0, 4000);
    }
    return false;
  }
};

std::string damaged(std::string bytes, bool json, std::mt19937& random) {
  if (json && random() % 3) return change_json(bytes, random());
  for (unsigned changes = 1 + random() % 3; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, 1 + random() % 20);
        break;
      case 2:
        bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 20));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace

TEST_P(Inputs, SeedsAreReadAndDamagedOnesAreReadOrRefused) {
  const Reader& reader = GetParam();
  const std::vector<std::string> seeds = reader.seeds();
  ASSERT_FALSE(seeds.empty());
  int accepted = 0;
  for (const std::string& seed : seeds) accepted += accepts(seed);
  EXPECT_GT(accepted, 0);
  std::mt19937 random(1);
  const char* const seconds = std::getenv("KDAGEN_INPUT_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 5);
  while (std::chrono::steady_clock::now() < end && !HasFailure())
    accepts(damaged(seeds[random() % seeds.size()], reader.json, random));
}

// What was found once, each with its outcome, so that a file whose format is of the past is noticed.
TEST_P(Inputs, FaultsOfThePastStayMended) {
  std::vector<std::filesystem::path> all, own;
  for (const auto& item : std::filesystem::directory_iterator(KDAGEN_FOUND)) {
    if (item.path().filename() == "README.md") continue;
    all.push_back(item.path());
    if (item.path().filename().string().starts_with(GetParam().name + "-")) own.push_back(item.path());
  }
  EXPECT_FALSE(all.empty()) << KDAGEN_FOUND;
  for (const std::filesystem::path& file : own) {
    ASSERT_TRUE(file.extension() == ".accepted" || file.extension() == ".refused") << file;
    EXPECT_EQ(accepts(slurp(file)), file.extension() == ".accepted") << file;
  }
}

std::vector<Reader> closed_readers() {
  std::vector<Reader> closed = readers();
  std::erase_if(closed, [](const Reader& reader) { return reader.open; });
  return closed;
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, Inputs, ::testing::ValuesIn(closed_readers()),
                         [](const auto& info) { return info.param.name; });

}  // namespace kdagen::testing
