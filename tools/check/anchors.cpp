// SPDX-License-Identifier: Apache-2.0
#include "tools/check/anchors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "tools/check/problem.h"

namespace kdagen {
namespace {

/// Numbers of a row of the tensor.
int64_t width_of(const evaluator::TensorInfo& info) {
  int64_t width = 1;
  for (size_t i = info.every > 0 ? 2 : 1; i < info.shape.size(); ++i) width *= info.shape[i];
  return width;
}

bool has_feature(const evaluator::TensorInfo& info, const Shape& shape) {
  return info.shape.size() > 1 && info.shape.back() == shape.dim;
}

}  // namespace

void limit_exponents_of_anchored(kda::KernelOp forward, Tensors& exponents) {
  constexpr double least = -50;
  for (kda::OutputOp output : forward.block().getOps<kda::OutputOp>()) {
    if (output.getAnchor() == 0 && !output.getAnchorTensor()) continue;
    for (double& exponent : exponents.at(output.getTensor().str()).values) exponent = std::max(exponent, least);
  }
}

Anchors::Anchors(kda::KernelOp forward, const Shape& shape) : shape_(shape) {
  const std::vector<evaluator::TensorInfo> infos = evaluator::tensors_of(forward, instance_of(shape));
  for (const evaluator::TensorInfo& info : infos) {
    if (info.anchor_tensor.empty()) continue;
    auto anchor =
        std::find_if(infos.begin(), infos.end(), [&](const auto& other) { return other.name == info.anchor_tensor; });
    outputs_.push_back({info, *anchor});
  }
}

std::vector<std::string> Anchors::names() const {
  std::set<std::string> names;
  for (const Output& output : outputs_) names.insert(output.anchor.name);
  return {names.begin(), names.end()};
}

Anchors::Values Anchors::by_rows(const Output& output, const Values& anchors) const {
  const int64_t width = width_of(output.anchor), parts = output.anchor.shape[1];
  Values rows(shape_.rows() * width, 0.0);
  const std::vector<Tile> tiles = shape_.tiles();
  for (size_t n = 0; n < tiles.size(); ++n)
    for (int64_t r = 0; r < tiles[n].rows; ++r)
      std::copy_n(&anchors.at((static_cast<int64_t>(n) * parts + r / output.anchor.every) * width), width,
                  &rows[(tiles[n].first_row + r) * width]);
  return rows;
}

void Anchors::scale(const Output& output, int sign, const Values& from, const Values& to, Values& values) const {
  const int64_t width = width_of(output.info), anchors = width_of(output.anchor);
  // An anchor without features serves all columns of a head.
  const int64_t columns = has_feature(output.info, shape_) && !has_feature(output.anchor, shape_) ? shape_.dim : 1;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t at = i / width * anchors + i % width / columns % anchors;
    values[i] = std::ldexp(values[i], static_cast<int>(sign * output.info.anchor_sign * (to[at] - from[at])));
  }
}

void Anchors::restate_outputs(Tensors& tensors, const Tensors& to) const {
  for (const Output& output : outputs_) {
    auto stored = tensors.find(output.info.name), own = tensors.find(output.anchor.name);
    if (stored == tensors.end() || own == tensors.end()) continue;
    scale(output, 1, by_rows(output, own->second.values), by_rows(output, to.at(output.anchor.name).values),
          stored->second.values);
  }
}

void Anchors::restate_cotangents(evaluator::Arrays& inputs, const Tensors& from, kda::KernelOp kernel,
                                 bool obey_rounds) const {
  evaluator::EvaluateOptions options;
  options.obey_rounds = obey_rounds;
  options.round_inputs = false;
  for (mlir::Operation& op : kernel.block()) {
    auto name = op.getNumResults() == 1 ? kda::user_name(op.getResult(0)) : std::nullopt;
    for (const Output& output : outputs_)
      if (name == output.anchor.name) options.taps.insert(*name);
  }
  if (options.taps.empty()) return;
  const evaluator::Arrays own = evaluator::evaluate(kernel, inputs, instance_of(shape_), options).tensors;
  for (const Output& output : outputs_) {
    auto anchor = own.find(output.anchor.name);
    auto cotangent = inputs.find("d" + output.info.name);
    if (anchor == own.end() || cotangent == inputs.end()) continue;
    // d(stored) = d(value) * 2^-(sign * n)
    scale(output, -1, by_rows(output, from.at(output.anchor.name).values), anchor->second.values,
          cotangent->second.values);
  }
}

std::vector<Verdict> Anchors::compare(const Tensors& expected, const Tensors& actual) const {
  std::vector<Verdict> verdicts;
  for (const auto& [name, reference] : expected) {
    if (std::none_of(outputs_.begin(), outputs_.end(),
                     [&](const Output& output) { return output.anchor.name == name; }))
      continue;
    Verdict verdict;
    verdict.name = name;
    auto found = actual.find(name);
    if (found == actual.end() || found->second.values.size() != reference.values.size()) {
      verdict.rel_l2 = verdict.max_rel = std::nan("");
      verdict.note = "absent";
      verdicts.push_back(verdict);
      continue;
    }
    double largest = 0, size = 0, off = 0, squares = 0;
    size_t neighbours = 0;
    for (size_t i = 0; i < reference.values.size(); ++i) {
      const double difference = std::fabs(found->second.values[i] - reference.values[i]);
      neighbours += difference == 1;
      if (!(difference <= off)) off = difference;
      squares += difference * difference;
      largest = std::max(largest, std::fabs(reference.values[i]));
      size += reference.values[i] * reference.values[i];
    }
    verdict.rel_l2 = off == 0 ? 0 : std::sqrt(squares / size);
    verdict.rel_bound = std::sqrt(static_cast<double>(reference.values.size()) / size);
    verdict.max_rel = off == 0 ? 0 : off / largest;
    verdict.max_bound = 1 / largest;
    verdict.ok = off <= 1;
    if (neighbours > 0)
      verdict.note = fmt::format("{} of {} integers are neighbours", neighbours, reference.values.size());
    verdicts.push_back(verdict);
  }
  return verdicts;
}

}  // namespace kdagen
