// SPDX-License-Identifier: Apache-2.0
// Kernels that double a tensor of [tokens, 32] by boxes of 8 rows: right in every order of threads, or with one fault
// that must be reported. `Kernel` is a Doubled with run(entry, order seed).
#pragma once
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support.h"

namespace kdagen::emulator::testing {

struct Doubled {
  static constexpr int columns = 32;

  explicit Doubled(int count) : tokens(count), x(count * columns), y(count * columns) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) + 0.5f;
  }
  std::vector<Buffer> buffers() const {
    return {{x.data(), x.size_bytes(), "x", true, false}, {y.data(), y.size_bytes(), "y", false, true}};
  }

  int tokens;
  GuardedArray<float> x, y;
};

constexpr int ragged_tokens = 45;  // the last box reaches past the tensor

template <class Kernel>
void expect_right_in_every_order() {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Kernel kernel(ragged_tokens);
    EXPECT_THAT(kernel.run("none", seed), ::testing::IsEmpty()) << seed;
    for (std::size_t i = 0; i < kernel.y.size(); ++i) ASSERT_EQ(kernel.y[i], 2 * kernel.x[i]) << i;
  }
}

struct SeededFault {
  const char* name;
  const char* says;
};
inline std::string name_of(const ::testing::TestParamInfo<SeededFault>& info) { return info.param.name; }

template <class Kernel>
void expect_found(const SeededFault& fault) {
  for (const unsigned seed : {0u, 3u, 5u}) {
    Kernel kernel(ragged_tokens);
    EXPECT_THAT(kernel.run(fault.name, seed), ::testing::Contains(::testing::HasSubstr(fault.says))) << seed;
  }
}

}  // namespace kdagen::emulator::testing
