// SPDX-License-Identifier: Apache-2.0
// Beside a parameter's gradient, the square root of the sum of its squared terms: what a sum that may cancel is judged
// by. The terms are what a tile contributes row by row. After the sums only linear ops are followed: y = a*x with a of
// the prologue scales a sum of squares by a^2, sums of independent values add theirs.
#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "codegen/evaluator/number.h"
#include "codegen/evaluator/program.h"

namespace kdagen::evaluator {

class TermNorms {
 public:
  TermNorms(const Program& program, int64_t heads)
      : program_(program), heads_(heads), squares_(program.values.size()) {}

  /// One tile's terms of a tile_sum: [rows][heads][columns] without the axes that `axes` lacks.
  template <class Number>
  void add(const Step& step, const std::vector<Number>& terms, Axes axes) {
    Axes to = program_.values[step.result].axes;
    std::vector<double>& sums = squares_[step.result];
    sums.resize(count(to));
    int64_t heads = axes.heads ? heads_ : 1, columns = axes.columns ? program_.dim : 1;
    for (int64_t i = 0; i < static_cast<int64_t>(terms.size()); ++i) {
      double term = functions::plain(terms[i]);
      sums[position(to, i / columns % heads, i % columns)] += term * term;
    }
  }

  /// An epilogue step whose operands' values are `operands`, each with the result's axes (sum: with its own axes).
  void follow(const Step& step, const std::vector<std::vector<double>>& operands) {
    Axes to = program_.values[step.result].axes;
    std::vector<double> result(count(to), 0.0);
    if (step.kind == Kind::sum) {
      Axes from = program_.values[step.operands[0]].axes;
      for (int64_t h = 0; h < (from.heads ? heads_ : 1); ++h)
        for (int64_t c = 0; c < (from.columns ? program_.dim : 1); ++c)
          result[position(to, h, c)] += square(step.operands[0], from, h, c);
    } else {
      for (int64_t h = 0; h < (to.heads ? heads_ : 1); ++h)
        for (int64_t c = 0; c < (to.columns ? program_.dim : 1); ++c) {
          int64_t i = position(to, h, c);
          result[i] = follow_element(step, operands, i, h, c);
        }
    }
    squares_[step.result] = std::move(result);
  }

  /// The root of the sum of squares, spread to the axes of a tensor; empty where the terms could not be followed.
  std::vector<double> norms(int value, Axes to) const {
    std::vector<double> result(count(to));
    for (int64_t h = 0; h < (to.heads ? heads_ : 1); ++h)
      for (int64_t c = 0; c < (to.columns ? program_.dim : 1); ++c) {
        double sum = square(value, program_.values[value].axes, h, c);
        if (std::isnan(sum)) return {};
        result[position(to, h, c)] = std::sqrt(sum);
      }
    return result;
  }

 private:
  int64_t count(Axes axes) const { return (axes.heads ? heads_ : 1) * (axes.columns ? program_.dim : 1); }
  int64_t position(Axes axes, int64_t h, int64_t c) const {
    return (axes.heads ? h : 0) * (axes.columns ? program_.dim : 1) + (axes.columns ? c : 0);
  }
  /// 0 for values of the prologue.
  double square(int value, Axes axes, int64_t h, int64_t c) const {
    return value < 0 || squares_[value].empty() ? 0.0 : squares_[value][position(axes, h, c)];
  }

  double follow_element(const Step& step, const std::vector<std::vector<double>>& operands, int64_t i, int64_t h,
                        int64_t c) const {
    double s[3], x[3];
    for (int k = 0; k < 3; ++k) {
      int value = step.operands[k];
      s[k] = value < 0 ? 0 : square(value, program_.values[value].axes, h, c);
      x[k] = value < 0 ? 0 : operands[k][i];
    }
    switch (step.kind) {
      case Kind::neg:
      case Kind::broadcast:
      case Kind::detach:
      case Kind::round:
        return s[0];
      case Kind::scale_exactly:
        return s[0] * step.number * step.number;
      case Kind::add:
      case Kind::sub:
        return s[0] + s[1];
      case Kind::mul:
        return x[0] * x[0] * s[1] + x[1] * x[1] * s[0];
      case Kind::fma:
        return x[0] * x[0] * s[1] + x[1] * x[1] * s[0] + s[2];
      case Kind::div:
        if (s[1] == 0) return s[0] / (x[1] * x[1]);
        break;
      case Kind::select:
        return x[0] != 0 ? s[1] : s[2];
      default:
        break;
    }
    bool constant = s[0] == 0 && s[1] == 0 && s[2] == 0;
    return constant ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  }

  const Program& program_;
  int64_t heads_;
  std::vector<std::vector<double>> squares_;  // by value
};

}  // namespace kdagen::evaluator
