// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlap.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

#include "runtime/runs.h"

using namespace kdagen::runtime;

namespace {

std::multiset<std::uintptr_t> bytes_of(const StridedView& view) {
  std::multiset<std::uintptr_t> bytes;
  std::vector<std::int64_t> index(view.shape.size(), 0);
  if (element_count(view.shape) == 0) return bytes;
  while (true) {
    std::uintptr_t address = view.base;
    for (std::size_t d = 0; d < index.size(); ++d) address += static_cast<std::uintptr_t>(index[d] * view.strides[d]);
    for (std::int64_t i = 0; i < view.element_bytes; ++i) bytes.insert(address + static_cast<std::uintptr_t>(i));
    std::size_t d = 0;
    for (; d < index.size() && ++index[d] == view.shape[d]; ++d) index[d] = 0;
    if (d == index.size()) return bytes;
  }
}

StridedView random_view(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  StridedView view;
  view.element_bytes = 1 << draw(0, 2);
  view.base = static_cast<std::uintptr_t>(draw(100, 160));
  for (int d = draw(0, 3); d > 0; --d) {
    view.shape.push_back(draw(0, 9) == 0 ? 0 : draw(1, 4));
    view.strides.push_back(draw(0, 14) * view.element_bytes);
  }
  return view;
}

}  // namespace

TEST(Overlap, AgreesWithListsOfBytes) {
  std::mt19937 random(12);
  int overlapping = 0;
  for (int i = 0; i < 4000; ++i) {
    const StridedView a = random_view(random), b = random_view(random);
    const auto bytes_a = bytes_of(a), bytes_b = bytes_of(b);
    bool shared = false;
    for (const std::uintptr_t byte : bytes_a) shared = shared || bytes_b.count(byte);
    overlapping += shared;
    ASSERT_EQ(may_overlap(a, b), shared) << "case " << i;
    ASSERT_EQ(may_overlap(b, a), shared) << "case " << i;
    ASSERT_EQ(end_of(a), bytes_a.empty() ? a.base : *bytes_a.rbegin() + 1);
    const bool self = std::set(bytes_a.begin(), bytes_a.end()).size() != bytes_a.size();
    ASSERT_TRUE(!self || overlaps_itself(a)) << "case " << i;  // it may also refuse what does not nest
  }
  EXPECT_GT(overlapping, 500);
  EXPECT_LT(overlapping, 3500);
}

TEST(Overlap, NestedLayoutsDoNotOverlapThemselves) {
  EXPECT_FALSE(overlaps_itself({0, 2, {2, 3, 4}, {1000, 100, 2}}));
  EXPECT_FALSE(overlaps_itself({0, 2, {2, 3, 4}, {2, 4, 12}}));
  EXPECT_TRUE(overlaps_itself({0, 2, {2, 4}, {0, 2}}));
  EXPECT_TRUE(overlaps_itself({0, 2, {2, 4}, {6, 2}}));
}

TEST(Overlap, BlocksAreExactlyTheElements) {
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    const StridedView view = random_view(random);
    if (overlaps_itself(view)) continue;
    std::multiset<std::uintptr_t> bytes;
    for_each_block(view, [&](const MemoryBlock& block) {
      for (std::int64_t row = 0; row < block.rows; ++row)
        for (std::int64_t j = 0; j < block.width; ++j)
          bytes.insert(view.base + static_cast<std::uintptr_t>(block.offset + row * block.pitch + j));
    });
    ASSERT_EQ(bytes, bytes_of(view)) << "case " << i;
  }
}

TEST(Overlap, ContiguousMemoryIsOneBlock) {
  int blocks = 0;
  for_each_block({0, 2, {3, 4, 5}, {40, 10, 2}}, [&](const MemoryBlock& block) {
    ++blocks;
    EXPECT_EQ(block.width, 120);
    EXPECT_EQ(block.rows, 1);
  });
  EXPECT_EQ(blocks, 1);
}
