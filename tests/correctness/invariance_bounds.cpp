// SPDX-License-Identifier: Apache-2.0
// What changes the order of sums, and so the bits, but no number by more than the error analysis allows: features in
// another order, sequences in another order, a batch in parts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/correctness/invariance_bench.h"

namespace kdagen {
namespace {

using testing::InvarianceBench;
using testing::Places;

using Part = std::pair<std::string, Direction>;

Shape shape_of(bool packed, std::vector<int64_t> lengths, int64_t batch) {
  Shape shape;
  shape.packed = packed;
  shape.seqlens = std::move(lengths);
  shape.batch = batch;
  shape.heads = 2;
  shape.chunk = 16;
  return shape;
}

/// Two computations of one number: each is off by its error and by half a unit of the storage, to first order.
void expect_near(const HostTensor& x, const HostTensor& y, const std::vector<double>& error_of_x,
                 const std::vector<double>& error_of_y) {
  ASSERT_EQ(x.values.size(), y.values.size());
  ASSERT_EQ(x.values.size(), error_of_x.size());
  const FloatFormat& format = float_format(x.dtype);
  for (size_t i = 0; i < x.values.size(); ++i) {
    const double size = std::max(std::fabs(x.values[i]), std::fabs(y.values[i]));
    const double bound = error_of_x[i] + error_of_y[i] + 2.02 * format.unit * size + 2 * format.tiny;
    ASSERT_LE(std::fabs(x.values[i] - y.values[i]), bound)
        << x.name << " element " << i << ": " << x.values[i] << ", " << y.values[i];
  }
}

Tensors tensors_of(const evaluator::Arrays& errors, const Tensors& like) {
  Tensors result;
  for (const auto& [name, tensor] : like) result[name] = {name, "f64", tensor.shape, errors.at(name).values};
  return result;
}

class InvarianceWithinBounds : public ::testing::TestWithParam<Part> {
 protected:
  InvarianceBench text_{GetParam().first, GetParam().second};

  void expect_near_after(const Shape& shape, const Shape& other, const Places& places) {
    const Tensors inputs = text_.draw(shape), moved = text_.taken(inputs, shape, other, places);
    const Tensors outputs = text_.run(inputs, shape), actual = text_.run(moved, other);
    const Tensors expected = text_.taken(outputs, shape, other, places);
    const Tensors errors = text_.taken(tensors_of(text_.errors(inputs, shape), outputs), shape, other, places);
    const evaluator::Arrays own = text_.errors(moved, other);
    for (const auto& [name, tensor] : expected)
      expect_near(tensor, actual.at(name), errors.at(name).values, own.at(name).values);
  }
};

TEST_P(InvarianceWithinBounds, FeaturesInAnotherOrder) {
  const Shape shape = shape_of(true, {21, 16, 0, 5}, 1);
  Places places;
  for (int64_t i = 0; i < 32; ++i) places.columns.push_back((11 * i + 5) % 32);
  expect_near_after(shape, shape, places);
}

TEST_P(InvarianceWithinBounds, SequencesInAnotherOrder) {
  Places places;
  for (int64_t i = 0; i < 62; ++i) places.rows.push_back(i < 17 ? 45 + i : i - 17);
  places.tiles = {4, 5, 0, 1, 2, 3};
  expect_near_after(shape_of(true, {5, 0, 40, 17}, 1), shape_of(true, {17, 5, 40, 0}, 1), places);
}

class InvarianceOfParameterSums : public InvarianceWithinBounds {};

TEST_P(InvarianceOfParameterSums, ABatchInParts) {
  const Shape both = shape_of(false, {150}, 2), one = shape_of(false, {150}, 1);
  const Tensors inputs = text_.draw(both), whole = text_.run(inputs, both);
  const evaluator::Arrays errors = text_.errors(inputs, both);
  Tensors sums;
  std::map<std::string, std::vector<double>> sum_errors;
  for (int64_t row : {0, 1}) {
    Places places;
    for (int64_t i = 0; i < 150; ++i) places.rows.push_back(150 * row + i);
    for (int64_t i = 0; i < 10; ++i) places.tiles.push_back(10 * row + i);
    const Tensors part = text_.taken(inputs, both, one, places);
    const evaluator::Arrays part_errors = text_.errors(part, one);
    for (const auto& [name, tensor] : text_.run(part, one)) {
      if (!text_.declaration(name, one).is_param) continue;
      HostTensor& sum = sums.try_emplace(name, HostTensor{name, tensor.dtype, tensor.shape,
                                                          std::vector<double>(tensor.values.size())})
                            .first->second;
      std::vector<double>& error = sum_errors.try_emplace(name, tensor.values.size()).first->second;
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        sum.values[i] += tensor.values[i];
        error[i] += part_errors.at(name).values[i] + float_format(tensor.dtype).unit * std::fabs(tensor.values[i]);
      }
    }
  }
  EXPECT_FALSE(sums.empty());
  for (const auto& [name, sum] : sums) expect_near(whole.at(name), sum, errors.at(name).values, sum_errors.at(name));
}

std::vector<Part> parts() {
  std::vector<Part> result;
  for (const SpecInfo& spec : shipped_specs())
    for (Direction direction : {Direction::fwd, Direction::bwd}) result.emplace_back(spec.name, direction);
  return result;
}
std::vector<Part> parts_with_parameters() {
  std::vector<Part> result;
  for (const SpecInfo& spec : shipped_specs())
    if (spec.graph.find("\"op\":\"param\"") != std::string::npos) result.emplace_back(spec.name, Direction::bwd);
  return result;
}
std::string name_of(const ::testing::TestParamInfo<Part>& test) {
  return test.param.first + "_" + std::string(direction_name(test.param.second));
}
INSTANTIATE_TEST_SUITE_P(Shipped, InvarianceWithinBounds, ::testing::ValuesIn(parts()), name_of);
INSTANTIATE_TEST_SUITE_P(Shipped, InvarianceOfParameterSums, ::testing::ValuesIn(parts_with_parameters()), name_of);

}  // namespace
}  // namespace kdagen
