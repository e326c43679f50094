// SPDX-License-Identifier: Apache-2.0
// The workload of a spec that declares none: normal inputs, and cotangents scaled by the outputs' exponential factors.
#include <algorithm>
#include <cmath>

#include <kdagen/error.h>

#include "specs/workloads/workload.h"

namespace kdagen {
namespace {

/// A draw inside the bounds: uniform between two finite ones, reflected from a single one.
double draw_bounded(Random& random, const Declaration& declaration, double deviation) {
  bool below = std::isfinite(declaration.lower), above = std::isfinite(declaration.upper);
  if (below && above) return random.uniform(declaration.lower, declaration.upper);
  double x = deviation * random.normal();
  if (below && x < declaration.lower) x = declaration.lower + std::fabs(x - declaration.lower);
  if (above && x > declaration.upper) x = declaration.upper - std::fabs(x - declaration.upper);
  return x;
}

/// Rounding may step over a bound that the format cannot hold; then the neighbour inside is taken.
double round_inside(double x, const Declaration& declaration, const FloatFormat& format) {
  double rounded = round_to(x, format);
  double step = 2 * format.unit * std::fabs(rounded) + 2 * format.tiny;
  if (rounded < declaration.lower) rounded = round_to(rounded + step, format);
  if (rounded > declaration.upper) rounded = round_to(rounded - step, format);
  return rounded;
}

/// Beyond it y*dy cannot be O(1): a float does not hold 2^-exponent times a normal number and what the backward
/// multiplies that by.
constexpr double largest_exponent = 100;

class GenericWorkload : public Workload {
 public:
  std::vector<std::string> regimes() const override { return {"normal"}; }

  Tensors inputs(const Problem& problem, const std::string& regime, uint64_t seed) const override {
    if (regime != "normal")
      throw UsageError("spec " + problem.spec + " has no regime '" + regime + "'; it has: normal");
    Tensors result;
    for (const Declaration& declaration : problem.inputs) {
      const FloatFormat& format = float_format(declaration.dtype);
      HostTensor tensor = make_tensor(declaration.name, declaration.dtype, dense_shape(declaration, problem.shape));
      Random random(seed, declaration.name);
      for (double& value : tensor.values)
        value = round_inside(draw_bounded(random, declaration, declaration.is_param ? 0.5 : 1.0), declaration, format);
      result[declaration.name] = std::move(tensor);
    }
    return result;
  }

  Tensors upstream(const Problem& problem, const Tensors& inputs, const ConsumerOptions& consumer) const override {
    Tensors result;
    for (const Declaration& declaration : problem.outputs) {
      if (declaration.is_integer()) continue;
      std::string name = "d" + declaration.name;
      HostTensor tensor = make_tensor(name, "f64", dense_shape(declaration, problem.shape));
      const std::vector<double>* exponents = find_exponents(consumer, declaration.name, tensor.values.size());
      Random random(consumer.seed, name);
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        double exponent = exponents ? (*exponents)[exponents->size() == 1 ? 0 : i] : 0;
        exponent = std::clamp(exponent, -largest_exponent, largest_exponent);
        tensor.values[i] = consumer.do_scale * random.normal() * std::exp2(-exponent);
      }
      clear_unused(problem.shape, declaration, tensor);
      result[name] = std::move(tensor);
    }
    return result;
  }

 private:
  static const std::vector<double>* find_exponents(const ConsumerOptions& consumer, const std::string& name,
                                                   size_t elements) {
    if (!consumer.exponents) return nullptr;
    auto found = consumer.exponents->find(name);
    if (found == consumer.exponents->end()) return nullptr;
    size_t given = found->second.values.size();
    if (given != 1 && given != elements) throw KdagenBug("exponents of output " + name + " do not have its shape");
    return &found->second.values;
  }

  /// Rows after the last offset and surplus tiles belong to no sequence.
  static void clear_unused(const Shape& shape, const Declaration& declaration, HostTensor& tensor) {
    bool rows = declaration.has(AxisRole::rows);
    if (!rows && !declaration.has(AxisRole::chunk)) return;
    int64_t slots = rows ? shape.rows() : shape.capacity();
    int64_t used = rows ? shape.rows() - shape.dead_rows : static_cast<int64_t>(shape.tiles().size());
    int64_t width = slots ? static_cast<int64_t>(tensor.values.size()) / slots : 0;
    std::fill(tensor.values.begin() + used * width, tensor.values.end(), 0.0);
  }
};

}  // namespace

const Workload& generic_workload() {
  static const GenericWorkload workload;
  return workload;
}

}  // namespace kdagen
