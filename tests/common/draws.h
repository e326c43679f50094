// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace kdagen::testing {

/// Deterministic numbers in [low, high).
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  double uniform(double low, double high) {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * double(z >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace kdagen::testing
