// SPDX-License-Identifier: Apache-2.0
// A libFuzzer program for the readers of its part: KDAGEN_READER=NAME PART_input_fuzzer [libFuzzer's options] FOLDER
// An empty folder gets the reader's seeds first.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include "kdagen/error.h"
#include "tests/fuzz/inputs/json_changes.h"
#include "tests/fuzz/inputs/readers.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using kdagen::testing::Reader;

const Reader* reader = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* name = std::getenv("KDAGEN_READER");
  for (const Reader& known : kdagen::testing::readers())
    if (name && known.name == name) reader = &known;
  if (!reader) {
    fmt::print(stderr, "KDAGEN_READER names none of:");
    for (const Reader& known : kdagen::testing::readers()) fmt::print(stderr, " {}", known.name);
    fmt::print(stderr, "\n");
    std::exit(2);
  }
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder)) continue;
    int number = 0;
    for (const std::string& seed : reader->seeds())
      std::ofstream(folder / fmt::format("seed-{}", number++), std::ios::binary) << seed;
  }
  if (!std::freopen("/dev/null", "w", stdout)) std::exit(2);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    reader->accepts(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const kdagen::KdagenBug&) {
    throw;
  } catch (const kdagen::Error&) {  // refused
  }
  return 0;
}

// Half of the changes to JSON are to its values, so that most of what is tried is JSON still.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (reader->json && random() % 8) {
    const std::string changed = kdagen::testing::change_json({reinterpret_cast<const char*>(data), size}, random());
    if (!changed.empty() && changed.size() <= max_size) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
