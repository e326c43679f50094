// SPDX-License-Identifier: Apache-2.0
#include "tools/check/bits.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "codegen/backend.h"
#include "tools/check/problem.h"

namespace kdagen {
namespace {

class SpelledOut : public Subject {
 public:
  explicit SpelledOut(Compilation& compilation) : module_(spelled_out(compilation)) {}

  Tensors run(const Tensors& inputs, const Shape& shape) override {
    kda::KernelOp kernel = *module_->getOps<kda::KernelOp>().begin();
    evaluator::EvaluateOptions options;
    options.arithmetic = evaluator::Arithmetic::f32;
    options.store_rounding = true;
    return tensors_of(evaluator::evaluate(kernel, arrays_of(inputs), instance_of(shape), options).tensors, kernel,
                      shape);
  }

 private:
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

double ratio(double error, double size) { return error == 0 ? 0 : error / size; }

Verdict compare(const HostTensor& expected, const HostTensor* actual) {
  Verdict verdict;
  verdict.name = expected.name;
  if (!actual || actual->values.size() != expected.values.size()) {
    verdict.rel_l2 = verdict.max_rel = std::nan("");
    verdict.note = actual ? "of the wrong size" : "absent";
    return verdict;
  }
  double error = 0, size = 0, max_error = 0, max_size = 0;
  size_t different = 0, first = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double x = actual->values[i], y = expected.values[i];
    if (!(x == y) && different++ == 0) first = i;
    error = std::hypot(error, x - y);
    size = std::hypot(size, y);
    max_error = std::isnan(x) ? x : std::max(max_error, std::fabs(x - y));
    max_size = std::max(max_size, std::fabs(y));
  }
  verdict.rel_l2 = ratio(error, size);
  verdict.max_rel = ratio(max_error, max_size);
  verdict.ok = different == 0;
  if (different != 0)
    verdict.note = fmt::format("{} of {} numbers differ, first element {}: {:.9g}, not {:.9g}", different,
                               expected.values.size(), first, actual->values[first], expected.values[first]);
  return verdict;
}

}  // namespace

std::unique_ptr<Subject> spelled_out_subject(Compilation& compilation) {
  return std::make_unique<SpelledOut>(compilation);
}

std::vector<Verdict> compare_bits(const Tensors& expected, const Tensors& actual) {
  std::vector<Verdict> verdicts;
  for (const auto& [name, tensor] : expected) {
    auto found = actual.find(name);
    verdicts.push_back(compare(tensor, found == actual.end() ? nullptr : &found->second));
  }
  return verdicts;
}

}  // namespace kdagen
