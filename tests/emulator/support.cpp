// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kdagen::emulator::testing {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string kernel_text(const std::string& file) { return file_text(std::string(KDAGEN_TEST_KERNEL_DIR "/") + file); }
std::string include_directory() { return KDAGEN_TEST_INCLUDE_DIR; }
std::string host_compiler() { return KDAGEN_TEST_HOST_CXX; }

std::shared_ptr<const Module> load_text(const std::string& text, const std::string& name, bool check) {
  std::string key = text + host_compiler() + (check ? "check" : "fast");
  for (const char* header : {"/kdagen/device.cuh", "/kdagen/fixed_point.cuh", "/kdagen/emulator.h"})
    key += file_text(include_directory() + header);
  for (const std::string& word : host_compile_command("", "", "", "", check)) key += word;
  const std::string stem =
      std::string(KDAGEN_TEST_OUTPUT_DIR "/") + name + "-" + std::to_string(XXH3_64bits(key.data(), key.size()));
  const std::string object = stem + ".so";
  if (!std::filesystem::exists(object)) {
    const std::string own = stem + "." + std::to_string(getpid());  // test processes may compile at the same time
    std::ofstream(own + ".cu") << text;
    host_compile(host_compiler(), own + ".cu", include_directory(), own + ".so", check);
    std::filesystem::rename(own + ".so", object);
  }
  return std::make_shared<const Module>(object);
}

std::shared_ptr<const Module> load_kernels(const std::string& file, bool check) {
  return load_text(kernel_text(file), std::filesystem::path(file).stem(), check);
}

void run_words(const std::string& file, const std::string& entry, Dim3 grid, Dim3 block,
               const std::vector<std::int64_t>& words) {
  const auto reports =
      run(*load_kernels(file, false), entry, grid, block, 0, words.data(), words.size(), {}, Options{.check = false});
  EXPECT_TRUE(reports.empty());
}

int marked_line(const std::string& file, const std::string& name) {
  std::istringstream lines(kernel_text(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with("// at: " + name)) return number;
  }
  ADD_FAILURE() << file << " has no line marked " << name;
  return 0;
}

Sample::Sample(int token_count)
    : tokens(token_count),
      tiles((token_count + 7) / 8),
      x(tokens * 128),
      y(tokens * 128),
      last(tiles * 128),
      weight(1),
      total(2 * tiles + 1) {
  for (int i = 0; i < tokens * 128; ++i) {
    const float value = static_cast<float>(i * 37 % 101 - 50) / 32.0f;  // 7 significant bits: exact in bf16
    x[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  weight[0] = 0.75f;
}

std::vector<Buffer> Sample::buffers() const {
  return {{x.data(), x.size_bytes(), "x", true, false},
          {y.data(), y.size_bytes(), "y", false, true},
          {last.data(), last.size_bytes(), "last", false, true},
          {weight.data(), weight.size_bytes(), "weight", true, false},
          {total.data(), total.size_bytes(), "total", false, true}};
}

std::vector<std::string> Sample::run(const std::string& name, const Options& options) {
  const std::vector<std::int64_t> words = {word(x.data()),
                                           0,
                                           128,
                                           128,  //
                                           word(y.data()),
                                           0,
                                           128,
                                           128,  //
                                           word(last.data()),
                                           0,
                                           128,
                                           128,  //
                                           word(weight.data()),
                                           word(total.data()),
                                           tokens};
  const auto module = load_kernels("sample.cu", options.check);
  return emulator::run(*module, name, {static_cast<unsigned>(tiles)}, {256}, 4 * sizeof(float), words.data(),
                       words.size(), buffers(), options);
}

}  // namespace kdagen::emulator::testing
