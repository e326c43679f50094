// SPDX-License-Identifier: Apache-2.0
// Chains in which every value is used twice: whoever walks the uses rather than the values takes 2^length steps.
#include <ctime>

#include <gtest/gtest.h>

#include "codegen/evaluator/evaluator.h"
#include "codegen/pipeline.h"
#include "kdagen/kdagen.h"
#include "tests/common/kernels.h"

namespace kdagen {
namespace {

using Link = Value (*)(const Value& y, const Value& x, int number);

std::string chain(int length, Link link) {
  Spec s("chain", "", Options({{"dim", "16"}, {"chunk", "8"}}));
  Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  Value x = s.input("x", f32, {t, h, d}), decay = exp2(cumsum(-0.125 * sigmoid(x), t)), y = x;
  for (int i = 0; i < length; ++i) y = link(y, x, i);
  s.output("y", y * decay);
  return s.graph();
}

/// Seconds of a processor, whatever else runs, from the graph to both rewritten passes and the exponents of the
/// outputs.
double seconds(const std::string& graph) {
  const std::clock_t start = std::clock();
  const evaluator::Instance instance = evaluator::Instance::fixed(1, 8, 1);
  for (Direction direction : {Direction::fwd, Direction::bwd}) {
    Compilation program(graph, direction, {});
    program.kernel(Stage::rewritten);
    program.require_ranges();
    if (direction == Direction::bwd) continue;
    kda::KernelOp forward = program.kernel(Stage::kda);
    evaluator::output_exponents(forward, kdagen::testing::draw_inputs(forward, instance, 1), instance);
  }
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

constexpr double limit = 5;

TEST(LongChains, Mixed) {
  EXPECT_LT(seconds(chain(400,
                          [](const Value& y, const Value& x, int number) {
                            switch (number % 4) {
                              case 0:
                                return y + y;
                              case 1:
                                return sigmoid(y);
                              case 2:
                                return y * y;
                              default:
                                return y * x - y;
                            }
                          })),
            limit);
}
TEST(LongChains, Sums) {
  EXPECT_LT(seconds(chain(400, [](const Value& y, const Value&, int) { return y + y; })), limit);
}
TEST(LongChains, Squares) {
  EXPECT_LT(seconds(chain(400, [](const Value& y, const Value&, int) { return y * y; })), limit);
}
TEST(LongChains, SquaresOfDecays) {
  EXPECT_LT(seconds(chain(160, [](const Value& y, const Value&,
                                  int number) { return number % 2 ? y * y : y * exp2(-(y * y)) - y; })),
            limit);
}

}  // namespace
}  // namespace kdagen
