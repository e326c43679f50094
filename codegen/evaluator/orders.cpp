// SPDX-License-Identifier: Apache-2.0
#include "codegen/evaluator/orders.h"

namespace kdagen::orders {

int64_t padded_count(int64_t count) {
  int64_t padded = 1;
  while (padded < count) padded *= 2;
  return padded;
}

std::vector<int> number_tree_bits(int64_t count) {
  std::vector<int> bits;
  for (int bit = 0; (int64_t{1} << bit) < padded_count(count); ++bit) bits.push_back(bit);
  return bits;
}

std::vector<int> row_tree_bits(int64_t columns) {
  std::vector<int> bits = number_tree_bits(columns);
  if (bits.size() > 3) {
    int top = bits.back();
    bits.pop_back();
    bits.insert(bits.begin() + 2, top);
  }
  return bits;
}

std::vector<std::pair<int64_t, int64_t>> tree_additions(const std::vector<int>& bits) {
  std::vector<std::pair<int64_t, int64_t>> additions;
  int64_t count = int64_t{1} << bits.size(), folded = 0;
  for (int bit : bits) {
    int64_t mask = int64_t{1} << bit;
    for (int64_t i = 0; i < count; ++i)
      if ((i & (folded | mask)) == 0) additions.emplace_back(i, i | mask);
    folded |= mask;
  }
  return additions;
}

}  // namespace kdagen::orders
