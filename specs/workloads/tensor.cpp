// SPDX-License-Identifier: Apache-2.0
#include "specs/workloads/tensor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include <kdagen/error.h>

namespace kdagen {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr double infinity = std::numeric_limits<double>::infinity();

FloatFormat make_format(int precision, int min_exponent, int max_exponent) {
  FloatFormat format;
  format.precision = precision;
  format.min_exponent = min_exponent;
  format.max = std::ldexp(2 - std::ldexp(1.0, 1 - precision), max_exponent);
  format.unit = std::ldexp(1.0, -precision);
  format.tiny = std::ldexp(1.0, std::max(min_exponent - precision, -1074));
  return format;
}

}  // namespace

int64_t Shape::tokens() const {
  if (!packed) return seqlens.empty() ? 0 : seqlens.front();
  return std::accumulate(seqlens.begin(), seqlens.end(), dead_rows);
}

int64_t Shape::capacity() const {
  return packed ? ceil_divide(tokens(), chunk) + sequences() : batch * ceil_divide(tokens(), chunk);
}

std::vector<Tile> Shape::tiles() const {
  std::vector<Tile> result;
  int64_t begin = 0;
  for (int64_t sequence = 0; sequence < sequences(); ++sequence) {
    int64_t length = packed ? seqlens[sequence] : tokens();
    for (int64_t row = 0; row < length; row += chunk)
      result.push_back({sequence, row / chunk, begin + row, std::min(chunk, length - row)});
    begin += length;
  }
  return result;
}

std::vector<int64_t> Shape::cumulative_lengths() const {
  std::vector<int64_t> result;
  if (!packed) return result;
  result.push_back(0);
  for (int64_t length : seqlens) result.push_back(result.back() + length);
  return result;
}

void Shape::validate() const {
  if (chunk < 1 || dim < 1 || heads < 1 || batch < 1)
    throw UsageError("shape: chunk, dim, heads and batch must be at least 1");
  if (packed && batch != 1) throw UsageError("shape: packed sequences (cu_seqlens) need batch 1");
  if (!packed && (seqlens.size() != 1 || dead_rows != 0))
    throw UsageError(
        "shape: fixed length takes one sequence length and no dead rows; ask for packed sequences instead");
  if (dead_rows < 0 || std::any_of(seqlens.begin(), seqlens.end(), [](int64_t length) { return length < 0; }))
    throw UsageError("shape: sequence lengths and dead rows must be at least 0");
}

bool Declaration::has(AxisRole role) const { return std::find(axes.begin(), axes.end(), role) != axes.end(); }

std::vector<int64_t> dense_shape(const Declaration& declaration, const Shape& shape) {
  std::vector<AxisRole> axes = declaration.axes;
  std::sort(axes.begin(), axes.end());
  std::vector<int64_t> result;
  for (AxisRole role : axes) {
    if (role == AxisRole::rows && declaration.every == 0) result.insert(result.end(), {shape.batch, shape.tokens()});
    if (role == AxisRole::chunk) result.push_back(shape.capacity());
    if (role == AxisRole::chunk && declaration.every > 0)
      result.push_back((shape.chunk + declaration.every - 1) / declaration.every);
    if (role == AxisRole::head) result.push_back(shape.heads);
    if (role == AxisRole::feature) result.push_back(shape.dim);
  }
  return result;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

HostTensor make_tensor(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape) {
  return {name, dtype, shape, std::vector<double>(element_count(shape), 0.0)};
}

const FloatFormat& float_format(const std::string& dtype) {
  static const std::map<std::string, FloatFormat> formats{{"bf16", make_format(8, -126, 127)},
                                                          {"fp16", make_format(11, -14, 15)},
                                                          {"f32", make_format(24, -126, 127)},
                                                          {"f64", make_format(53, -1022, 1023)}};
  auto found = formats.find(dtype);
  if (found == formats.end()) throw UsageError("dtype '" + dtype + "' is not one of bf16, fp16, f32, f64");
  return found->second;
}

double round_to(double x, const FloatFormat& format) {
  if (x == 0 || !std::isfinite(x) || format.precision == 53) return x;
  int unit_in_last_place = std::max(std::ilogb(x), format.min_exponent) - (format.precision - 1);
  double rounded = std::scalbn(std::nearbyint(std::scalbn(x, -unit_in_last_place)), unit_in_last_place);
  return std::fabs(rounded) > format.max ? std::copysign(infinity, x) : rounded;
}

double round_to(double x, const std::string& dtype) { return round_to(x, float_format(dtype)); }

HostTensor stored_as(const HostTensor& tensor, const std::string& dtype) {
  const FloatFormat& format = float_format(dtype);
  HostTensor result{tensor.name, dtype, tensor.shape, tensor.values};
  for (double& value : result.values) value = round_to(value, format);
  return result;
}

Random::Random(uint64_t seed, const std::string& stream) : state_(seed) {
  next();
  for (unsigned char c : stream) {
    state_ ^= c;
    state_ = next();
  }
}

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * std::ldexp(static_cast<double>(next() >> 11) + 0.5, -53);
}

// Box-Muller, one of the pair: the argument of log is never 0.
double Random::normal() {
  double radius = std::sqrt(-2 * std::log(uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

}  // namespace kdagen
