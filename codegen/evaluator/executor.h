// SPDX-License-Identifier: Apache-2.0
// Runs a Program: the prologue once, every tile, then the epilogue. Number is float, double or Tracked.
#pragma once
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include "codegen/evaluator/evaluator.h"
#include "codegen/evaluator/pointwise.h"
#include "codegen/evaluator/reductions.h"
#include "codegen/evaluator/term_norms.h"

namespace kdagen::evaluator {

/// Inputs in dense canonical order, already rounded to their storage; null where an optional input is absent.
using InputValues = std::vector<const std::vector<double>*>;

template <class Number>
class Executor {
 public:
  Executor(const Program& program, const Instance& instance, const InputValues& inputs, const EvaluateOptions& options)
      : program_(program),
        instance_(instance),
        inputs_(inputs),
        options_(options),
        arrays_(program.slots),
        reductions_(program.dim, instance.heads),
        terms_(program, instance.heads) {
    obey_rounds_ = options.obey_rounds || options.arithmetic == Arithmetic::f32;
    if (options.record_held) options.record_held->assign(program.held, {});
  }

  Result run(const std::vector<std::vector<int64_t>>& shapes) {
    prepare_results(shapes);
    run_steps(kda::Section::Prologue);
    write(Place::param, kda::Section::Prologue);
    std::vector<Tile> tiles = instance_.tiles(program_.chunk);
    int64_t capacity = instance_.capacity(program_.chunk);
    for (const Step& step : program_.steps)
      if (step.kind == Kind::tile_sum)
        tile_sums_.emplace_back(capacity, count_of(axes(step.operands[0]).without_rows()));
    for (size_t i = 0; i < tiles.size(); ++i) {
      tile_ = tiles[i];
      tile_number_ = static_cast<int64_t>(i);
      run_steps(kda::Section::Tile);
      write(Place::chunk, kda::Section::Tile);
      write(Place::token, kda::Section::Tile);
    }
    tile_.rows = 0;
    run_steps(kda::Section::Epilogue);
    write(Place::param, kda::Section::Epilogue);
    return std::move(result_);
  }

 private:
  // ---- arrays ----------------------------------------------------------------------------------------------------
  int64_t extent_rows(Axes axes) const { return axes.rows ? tile_.rows : 1; }
  int64_t extent_heads(Axes axes) const { return axes.heads ? instance_.heads : 1; }
  int64_t extent_columns(Axes axes) const { return axes.columns ? program_.dim : 1; }
  int64_t count_of(Axes axes) const { return extent_rows(axes) * extent_heads(axes) * extent_columns(axes); }

  const std::vector<Number>& array(int value) const { return arrays_[program_.values[value].slot]; }
  Axes axes(int value) const { return program_.values[value].axes; }

  /// The operand with all of `to`'s axes, spread into `scratch` if it lacks some.
  const Number* spread(int value, Axes to, std::vector<Number>& scratch) {
    return axes(value) == to ? array(value).data() : spread(array(value).data(), axes(value), to, scratch);
  }
  const Number* spread(const Number* from, Axes axes, Axes to, std::vector<Number>& scratch) {
    scratch.resize(count_of(to));
    int64_t column_step = axes.columns ? 1 : 0, columns = extent_columns(to);
    int64_t head_step = axes.heads ? extent_columns(axes) : 0;
    int64_t row_step = axes.rows ? extent_heads(axes) * extent_columns(axes) : 0;
    Number* out = scratch.data();
    for (int64_t r = 0; r < extent_rows(to); ++r)
      for (int64_t h = 0; h < extent_heads(to); ++h, out += columns) {
        const Number* row = from + r * row_step + h * head_step;
        if (column_step)
          std::copy(row, row + columns, out);
        else
          std::fill(out, out + columns, *row);
      }
    return scratch.data();
  }

  // ---- steps -----------------------------------------------------------------------------------------------------
  void run_steps(kda::Section section) {
    for (const Step& step : program_.steps) {
      if (step.kind == Kind::tile_sum && section == kda::Section::Tile) accumulate(step);
      if (step.section != section) continue;
      run(step);
      if (options_.term_norms && section == kda::Section::Epilogue && step.kind != Kind::tile_sum) follow_terms(step);
    }
  }

  void run(const Step& step) {
    Axes to = axes(step.result);
    std::vector<Number>& result = arrays_[program_.values[step.result].slot];
    result.resize(count_of(to));
    switch (step.kind) {
      case Kind::input:
        load(step, result);
        break;
      case Kind::constant:
        result[0] = constant(step.number);
        break;
      case Kind::fixed_constant:
        result[0] = fixed_point::constant(Number(0), step.number, step.fraction_bits);
        break;
      case Kind::fixed_scan:
      case Kind::fixed_sum:
        sum_fixed(step, result);
        break;
      case Kind::row_index:  // [rows][heads]: the same for every head
        for (size_t i = 0; i < result.size(); ++i) {
          const size_t row = i / size_t(extent_heads(to));
          result[i] = Number(double(row));
        }
        break;
      case Kind::column_index:
        for (size_t i = 0; i < result.size(); ++i) result[i] = Number(double(i));
        break;
      case Kind::sum:
      case Kind::max_reduce:
        reduce(step, result);
        break;
      case Kind::inverse_norm:
        take_inverse_norm(step, result);
        break;
      case Kind::tile_sum:
        finish(step, result);
        break;
      case Kind::scan:
      case Kind::last:
      case Kind::at_last:
      case Kind::shift:
      case Kind::boundary:
        run_over_rows(step, result);
        break;
      default:
        run_pointwise(step, to, result);
    }
  }

  void run_pointwise(const Step& step, Axes to, std::vector<Number>& result) {
    const Number* operands[3] = {};
    for (int i = 0; i < 3; ++i)
      if (step.operands[i] >= 0) operands[i] = spread(step.operands[i], to, scratch_[i]);
    evaluate_pointwise(step, operands, result.data(), static_cast<int64_t>(result.size()), obey_rounds_);
    if (step.index < 0) return;
    if (has_held_value(step.kind)) hold(step, result);
    if (has_held_branch(step.kind)) hold_branch(step, operands, result);
  }

  /// Rounded to float where the program computes in float32; Tracked knows by how much.
  Number constant(double value) const {
    if constexpr (std::is_same_v<Number, Tracked>)
      return Tracked(value, std::fabs(value - double(float(value))));
    else
      return Number(value);
  }

  void load(const Step& step, std::vector<Number>& result) {
    const std::vector<double>* values = inputs_[step.index];
    if (!values) return std::fill(result.begin(), result.end(), Number(program_.inputs[step.index].absent));
    Place place = program_.inputs[step.index].place;
    int64_t offset = place == Place::token   ? tile_.first_row * (static_cast<int64_t>(result.size()) / tile_.rows)
                     : place == Place::chunk ? tile_number_ * static_cast<int64_t>(result.size())
                                             : 0;
    const double* from = values->data() + offset;
    for (size_t i = 0; i < result.size(); ++i) result[i] = Number(from[i]);
  }

  /// Records or restores values.
  void hold(const Step& step, std::vector<Number>& result) {
    if (options_.record_held) {
      std::vector<double> values(result.size());
      for (size_t i = 0; i < values.size(); ++i) values[i] = functions::plain(result[i]);
      (*options_.record_held)[step.index].push_back(std::move(values));
    }
    if (options_.held) {
      bool in_tile = step.section == kda::Section::Tile;
      const std::vector<double>& values = options_.held->at(step.index).at(in_tile ? tile_number_ : 0);
      for (size_t i = 0; i < values.size(); ++i) result[i] = Number(values[i]);
    }
  }

  /// Records the branch taken, or takes the one that was recorded.
  void hold_branch(const Step& step, const Number* const operands[3], std::vector<Number>& result) {
    if (!options_.record_held && !options_.held) return;
    std::vector<Number> branches(result.size());
    for (size_t i = 0; i < branches.size(); ++i) {
      const double x = functions::plain(operands[0][i]), y = operands[1] ? functions::plain(operands[1][i]) : 0;
      const int side = x < y ? -1 : x == y ? 0 : 1;
      branches[i] = Number(step.kind != Kind::clamp ? side : x < step.number ? -1 : x > step.upper ? 1 : 0);
    }
    hold(step, branches);
    for (size_t i = 0; options_.held && i < result.size(); ++i) {
      const double side = functions::plain(branches[i]);
      const Number x = operands[0][i], y = operands[1] ? operands[1][i] : Number(0), half = Number(0.5);
      switch (step.kind) {  // a tie is shared half and half
        case Kind::clamp:
          result[i] = side == 0 ? x : Number(side < 0 ? step.number : step.upper);
          break;
        case Kind::abs:
          result[i] = side == 0 ? Number(0) : side < 0 ? -x : x;
          break;
        case Kind::min:
          result[i] = side == 0 ? half * (x + y) : side < 0 ? x : y;
          break;
        default:
          result[i] = side == 0 ? half * (x + y) : side < 0 ? y : x;
          break;
      }
    }
  }

  void run_over_rows(const Step& step, std::vector<Number>& result) {
    const Number* x = array(step.operands[0]).data();
    int64_t rows = tile_.rows, width = count_of(axes(step.result)) / extent_rows(axes(step.result));
    int64_t last = (rows - 1) * width;
    if (step.kind == Kind::scan) {
      for (int64_t i = 0; i < width; ++i)
        orders::scan(x + i, result.data() + i, width, rows, step.exclusive, step.reverse);
    } else if (step.kind == Kind::last) {
      if (axes(step.operands[0]).rows) x += last;
      std::copy(x, x + width, result.begin());
    } else if (step.kind == Kind::at_last) {
      std::fill(result.begin(), result.end(), Number(0));
      std::copy(x, x + width, result.begin() + last);
    } else if (step.kind == Kind::boundary) {
      std::fill(result.begin(), result.end(), Number(0));  // also a fixed-point 0
      for (int64_t r = step.amount; r < rows; ++r)
        std::copy_n(x + (r / step.amount * step.amount - 1) * width, width, result.data() + r * width);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        int64_t from = r - step.amount;
        Number* to = result.data() + r * width;
        if (from >= 0 && from < rows)
          std::copy(x + from * width, x + (from + 1) * width, to);
        else
          std::fill(to, to + width, constant(step.number));
      }
    }
  }

  /// Scans and sums over the rows of fixed-point values.
  void sum_fixed(const Step& step, std::vector<Number>& result) {
    const Number* x = array(step.operands[0]).data();
    int64_t rows = tile_.rows, width = count_of(axes(step.operands[0])) / rows;
    for (int64_t i = 0; i < width; ++i)
      if (step.kind == Kind::fixed_sum)
        result[i] = fixed_point::total(x + i, width, rows);
      else
        fixed_point::scan(x + i, result.data() + i, width, rows, step.exclusive, step.reverse);
  }

  // ---- reductions ------------------------------------------------------------------------------------------------
  void reduce(const Step& step, std::vector<Number>& result) {
    bool sum = step.kind == Kind::sum;
    Axes from = axes(step.operands[0]);
    std::vector<Number> current;
    const Number* x = array(step.operands[0]).data();
    if (step.of_products) {
      const Number* a = spread(step.operands[1], from, scratch_[1]);
      const Number* b = spread(step.operands[2], from, scratch_[2]);
      current.resize(count_of(from) / program_.dim);
      for (size_t i = 0; i < current.size(); ++i)
        current[i] = reductions_.tree().dot(a + i * program_.dim, 1, b + i * program_.dim, 1);
      from.columns = false;
      x = current.data();
    }
    if (step.over.rows) x = reductions_.over_rows(x, from, tile_.rows, sum, current);
    x = reductions_.over_columns_and_heads(step.over, x, from, tile_.rows, sum, current);
    std::copy(x, x + result.size(), result.begin());
    if (step.kind == Kind::max_reduce && (options_.record_held || options_.held)) hold_largest(step, result);
  }

  /// Which elements are the largest is recorded or taken as it was: then the result is their mean.
  void hold_largest(const Step& step, std::vector<Number>& result) {
    const Axes all = axes(step.operands[0]);
    std::vector<Number> x = array(step.operands[0]), largest(x.size());
    const Number* most = spread(step.result, all, scratch_[0]);
    for (size_t i = 0; i < x.size(); ++i) largest[i] = Number(functions::plain(x[i]) == functions::plain(most[i]));
    hold(step, largest);
    if (!options_.held) return;
    for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * largest[i];
    auto sum = [&](const std::vector<Number>& values) {
      Axes from = all;
      std::vector<Number> rows, columns;
      const Number* sums =
          step.over.rows ? reductions_.over_rows(values.data(), from, tile_.rows, true, rows) : values.data();
      sums = reductions_.over_columns_and_heads(step.over, sums, from, tile_.rows, true, columns);
      return std::vector<Number>(sums, sums + result.size());
    };
    const std::vector<Number> sums = sum(x), counts = sum(largest);
    for (size_t i = 0; i < result.size(); ++i) result[i] = sums[i] / counts[i];
  }

  void take_inverse_norm(const Step& step, std::vector<Number>& result) {
    const Number* x = spread(step.operands[0], axes(step.operands[0]), scratch_[0]);
    const Number factor = array(step.operands[1])[0], eps = array(step.operands[2])[0];
    for (size_t i = 0; i < result.size(); ++i) result[i] = reductions_.inverse_norm(x + i * program_.dim, factor, eps);
  }

  void accumulate(const Step& step) {
    Axes from = axes(step.operands[0]);
    std::vector<Number> storage;
    const Number* x = array(step.operands[0]).data();
    if (from.rows) x = reductions_.over_rows(x, from, tile_.rows, true, storage);
    tile_sums_[step.index].add(tile_number_, x);
    if (options_.term_norms) terms_.add(step, array(step.operands[1]), axes(step.operands[1]));
  }
  void follow_terms(const Step& step) {
    std::vector<std::vector<double>> operands(3);
    for (int i = 0; i < 3; ++i) {
      if (step.operands[i] < 0 || step.kind == Kind::sum) continue;
      const Number* x = spread(step.operands[i], axes(step.result), scratch_[i]);
      for (int64_t k = 0; k < count_of(axes(step.result)); ++k) operands[i].push_back(functions::plain(x[k]));
    }
    terms_.follow(step, operands);
  }
  void finish(const Step& step, std::vector<Number>& result) {
    Axes from = axes(step.operands[0]).without_rows();
    std::vector<Number> total(count_of(from)), storage;
    tile_sums_[step.index].finish(total.data());
    const Number* x = reductions_.over_columns_and_heads(step.over, total.data(), from, tile_.rows, true, storage);
    std::copy(x, x + result.size(), result.begin());
  }

  // ---- outputs ---------------------------------------------------------------------------------------------------
  void prepare_results(const std::vector<std::vector<int64_t>>& shapes) {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      int64_t count = 1;
      for (int64_t extent : shapes[i]) count *= extent;
      const std::string& name = program_.outputs[i].name;
      values_.push_back(&(result_.tensors[name] = {std::vector<double>(count, 0.0), shapes[i]}).values);
      if constexpr (std::is_same_v<Number, Tracked>)
        errors_.push_back(&(result_.error_bounds[name] = {std::vector<double>(count, 0.0), shapes[i]}).values);
    }
  }

  /// The tensors of this place; params are written in the section in which their value is known.
  void write(Place place, kda::Section section) {
    for (const Write& write : program_.writes) {
      const Tensor& tensor = program_.outputs[write.tensor];
      if (tensor.place != place) continue;
      if (place == Place::param && program_.values[write.value].section != section) continue;
      const Number* x = spread(write.value, tensor.axes, scratch_[0]);
      int64_t count = count_of(tensor.axes);
      if (tensor.every > 0) {  // the sub-chunks of a tile, those without rows too, which stay 0
        const int64_t width = count / tile_.rows, parts = (program_.chunk + tensor.every - 1) / tensor.every;
        for (int64_t r = 0; r < tile_.rows; r += tensor.every)
          store(write, tensor, x + r * width, width, (tile_number_ * parts + r / tensor.every) * width);
        continue;
      }
      int64_t offset = place == Place::token   ? tile_.first_row * (count / tile_.rows)
                       : place == Place::chunk ? tile_number_ * count
                                               : 0;
      store(write, tensor, x, count, offset);
      if (options_.term_norms && section == kda::Section::Epilogue && place == Place::param)
        if (auto norms = terms_.norms(write.value, tensor.axes); !norms.empty())
          result_.term_norms[tensor.name] = {std::move(norms), result_.tensors[tensor.name].shape};
    }
  }

  void store(const Write& write, const Tensor& tensor, const Number* x, int64_t count, int64_t offset) {
    bool round = options_.store_rounding && !write.is_tap;
    double* values = values_[write.tensor]->data() + offset;
    int fraction_bits = program_.values[write.value].fraction_bits;  // taps of fixed-point values are floats
    for (int64_t i = 0; i < count; ++i) {
      double value = double(functions::plain(fraction_bits < 0 ? x[i] : fixed_point::from_fixed(x[i], fraction_bits)));
      values[i] = round ? round_to(value, tensor.storage) : value;
    }
    if constexpr (std::is_same_v<Number, Tracked>) {
      double* errors = errors_[write.tensor]->data() + offset;
      double unit = round ? tensor.storage.unit() : 0, tiny = round ? tensor.storage.tiny() : 0;
      for (int64_t i = 0; i < count; ++i)
        errors[i] = x[i].error + unit * std::fabs(x[i].value) + underflow(x[i].value, x[i].error, tiny);
    }
  }

  const Program& program_;
  const Instance& instance_;
  const InputValues& inputs_;
  const EvaluateOptions& options_;
  bool obey_rounds_;
  std::vector<std::vector<Number>> arrays_;
  std::vector<Number> scratch_[3];
  Reductions<Number> reductions_;
  std::vector<orders::TileSum<Number>> tile_sums_;
  TermNorms terms_;
  Tile tile_{};
  int64_t tile_number_ = 0;
  Result result_;
  std::vector<std::vector<double>*> values_, errors_;
};

}  // namespace kdagen::evaluator
