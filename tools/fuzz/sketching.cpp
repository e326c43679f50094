// SPDX-License-Identifier: Apache-2.0
// From a recipe's numbers to a spec that is sensible: values stay of ordinary size, functions in their domains,
// exponents provable, and no comparison sits on a kink.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "codegen/analysis/anchors.h"
#include "tools/fuzz/sketch.h"

namespace kdagen::fuzz {
namespace {

/// Five deviations of a normal input, four of a parameter (they are half as wide).
constexpr double likely_input = 5, likely_param = 2;
/// A value larger than the first is scaled by a power of two to at most the second.
constexpr double too_large = 2048, large = 8;
static_assert(rows_of_subchunk == subchunk_rows);

template <class T, size_t count>
T pick(const T (&choices)[count], int number) {
  return choices[size_t(number) % count];
}

class Sketcher {
 public:
  explicit Sketcher(const Recipe& recipe) : recipe_(recipe) {}

  Sketch sketch() {
    choose_sizes();
    choose_storage();
    choose_schedule();
    choose_memory();
    for (const Gene& gene : recipe_.tensors) add_tensor(gene);
    if (!has_input()) add_tensor({});
    const std::vector<int>& menu = weighted_forms(next_setting() % 3 == 2);
    for (const Gene& gene : recipe_.steps) add_value(gene, menu);
    for (const Gene& gene : recipe_.outputs) add_output(gene);
    if (result_.outputs.empty()) add_output({});
    if (result_.outputs.empty()) result_.outputs.emplace_back().value = first_input();
    drop_unused();
    choose_saved();
    move_dtypes_to_options();
    return std::move(result_);
  }

 private:
  int next_setting() { return at_ < recipe_.settings.size() ? recipe_.settings[at_++] : 0; }
  template <size_t count>
  void set(const char* key, const char* const (&choices)[count]) {
    const char* choice = pick(choices, next_setting());
    if (*choice) result_.options[key] = choice;
  }

  void choose_sizes() {
    constexpr int dims[] = {16, 16, 16, 24, 32, 20, 64, 100}, chunks[] = {8, 8, 16, 16, 24, 32};
    constexpr std::pair<int, int> shipped[] = {{16, 128}, {64, 128}, {32, 128}, {64, 256},
                                               {16, 256}, {64, 64},  {32, 256}, {128, 32}};  // chunk, dim
    Shape& shape = result_.shape;
    shape.dim = pick(dims, next_setting()), shape.chunk = pick(chunks, next_setting());
    const int size = next_setting();
    const bool large = size % 8 == 7;
    if (large) std::tie(shape.chunk, shape.dim) = pick(shipped, size / 8);
    result_.options["dim"] = std::to_string(shape.dim);
    result_.options["chunk"] = std::to_string(shape.chunk);
    constexpr int heads[] = {1, 2, 1, 3};
    shape.heads = large ? 1 + next_setting() % 2 : pick(heads, next_setting());
    const int lengths = next_setting();
    shape.packed = lengths % 4 != 0;
    if (!shape.packed) {
      shape.batch = 1 + next_setting() % 2;
      shape.seqlens = {1 + next_setting() % (2 * shape.chunk + 5)};
      return;
    }
    shape.seqlens.clear();
    for (int i = 0; i < 1 + lengths / 4 % (large ? 2 : 4); ++i) {
      const int number = next_setting();
      shape.seqlens.push_back(number % 8 == 7 ? 0 : number % 8 == 6 ? shape.chunk : 1 + number % (shape.chunk + 7));
    }
    if (shape.tokens() == 0) shape.seqlens.push_back(1);
    if (const int unused = next_setting(); unused % 3 == 1) shape.dead_rows = 1 + unused % (12 * shape.chunk);
  }

  void choose_storage() {
    set("dtype", {"f32", "bf16", "bf16", "fp16"});
    set("out", {"f32", "bf16", "bf16", "fp16"});
    set("grads", {"f32", "bf16", "f32", "bf16", "f32", "fp16"});
    set("layout", {"", "htd"});
    set("upstream", {"", "bf16", "fp16row", ""});
    set("upstream_layout", {"", "tile"});
    set("operands", {"", "exact", "rounded", ""});
    set("scan", {"", "", "fixed", "float"});
    result_.given_left_out = next_setting() % 2 == 1;
  }

  /// Keys as they come; those that do not fit a pass are left out there.
  void wish(const char* key, std::initializer_list<int> values) {
    const int number = next_setting();
    if (number % 2 == 1)
      result_.schedule.push_back(fmt::format("{}={}", key, values.begin()[size_t(number / 2) % values.size()]));
  }
  void choose_schedule() {
    if (next_setting() % 8 == 7) {
      result_.schedule = {"baseline"};
      return;
    }
    wish("threads", {128, 32, 64, 256, 512, 1024});
    wish("tiles_per_block", {1, 2, 4, 8, 16, 24});
    wish("min_blocks", {1, 2, 3, 4, 6, 8, 0});
    wish("heads_fastest", {0, 1});
    wish("stages", {0, 1, 2, 3, 4, 8});
  }

  void choose_memory() {
    CallersMemory& memory = result_.memory;
    if (next_setting() % 2 == 1) memory.offsets = runtime::OffsetType::i64;
    constexpr int base_offsets[] = {0, 0, 0, 2, 0, 24, 0, 16};
    memory.base_offset = pick(base_offsets, next_setting());
    const int strides = next_setting();
    if (strides % 4 != 0) memory.strides = strides % 4 == 3 ? uint64_t(strides) : 2 * uint64_t(strides);
    memory.shared = next_setting() % 4 == 3;
    result_.repeats = next_setting() % 2 == 1;
  }

  bool has_input() const {
    return std::any_of(result_.tensors.begin(), result_.tensors.end(),
                       [](const TensorLine& line) { return !line.is_param; });
  }
  int first_input() const {
    for (size_t i = 0; i < result_.tensors.size(); ++i)
      if (!result_.tensors[i].is_param) return int(i);
    return 0;
  }

  void add_tensor(const Gene& gene) {
    constexpr unsigned token = rows_bit | head_bit | feature_bit, row = rows_bit | head_bit;
    constexpr unsigned kinds[] = {token, token, row, head_bit | feature_bit, feature_bit, head_bit, 0, token};
    constexpr Interval bounds[] = {{-1, 1}, {-4, 0}, {0.25, 2}, {-0.5, 3}};
    TensorLine line;
    line.axes = pick(kinds, gene.what);
    line.is_param = !(line.axes & rows_bit);
    line.name = fmt::format("{}{}", line.is_param ? "p" : line.axes == row ? "r" : "x", result_.tensors.size());
    if (!line.is_param && gene.a % 3 == 2) line.dtype = pick({f32, bf16, fp16, f32}, gene.a / 3);
    line.dtype_option = line.dtype && gene.detail % 2 == 1;
    if (gene.b % 8 == 7) line.absent = pick({0.0, 1.0, -0.5, 0.25}, gene.b / 8);
    if (gene.c % 4 == 3) line.bounds = pick(bounds, gene.c / 4);
    if (line.bounds && line.absent) line.absent = line.bounds->low;
    Estimate estimate;
    estimate.axes = line.axes;
    estimate.tile = !line.is_param;
    const bool narrow = line.dtype ? *line.dtype != f32 : result_.options["dtype"] != "f32";
    estimate.flat = !line.is_param && narrow;  // few numbers: two differences of them are often equal
    const double size = line.is_param ? likely_param : likely_input;
    estimate.likely = line.bounds.value_or(Interval{-size, size});
    estimate.proven = line.bounds.value_or(anything);
    result_.tensors.push_back(line);
    estimates_.push_back(estimate);
  }

  /// One of the last values more often than an early one; 0 is the last.
  int operand(int number) const {
    const int count = int(estimates_.size());
    return count - 1 - (number < 40 ? number % 4 : number) % count;
  }
  /// The same among values that are exponents.
  int exponent(int number) const {
    std::vector<int> found;
    for (int i = int(estimates_.size()) - 1; i >= int(result_.tensors.size()); --i)
      if (estimates_[i].proven.size() <= 40 && estimates_[i].proven.size() > 0) found.push_back(i);
    return found.empty() ? operand(number) : found[size_t(number) % found.size()];
  }

  /// A parameter; any value where there is none.
  int parameter(int number) const {
    std::vector<int> found;
    for (size_t i = 0; i < result_.tensors.size(); ++i)
      if (result_.tensors[i].is_param) found.push_back(int(i));
    return found.empty() ? operand(number) : found[size_t(number) % found.size()];
  }

  EstimateLetters letters(const ValueLine& line) const {
    const Shape& shape = result_.shape;
    auto of = [&](int i) { return estimates_[line.operands[i]]; };
    return {of(0),
            of(1),
            of(2),
            of(3),
            of(4),
            line.k,
            line.n,
            {rows_bit, double(shape.chunk)},
            {head_bit, 1},
            {feature_bit, double(shape.dim)},
            Constant::symbol("scale", 0.375),
            Constant::symbol("rate", 1.25)};
  }

  void add_value(const Gene& gene, const std::vector<int>& menu) {
    constexpr double numbers[] = {1, 0.5, 0.25, 2, 0.125, 1.5, 0.3, 3};
    ValueLine line;
    line.form = menu[size_t(gene.what + gene_values * (gene.detail % 4)) % menu.size()];
    line.k = pick(numbers, gene.detail / 4);
    line.n = 1 + gene.detail % 5;
    line.named = gene.detail % 3 == 2;
    for (int attempt = 0; attempt < 6; ++attempt) {
      line.operands = {operand(gene.a + attempt), operand(gene.b + 7 * attempt), operand(gene.c + attempt),
                       exponent(gene.c + attempt), parameter(gene.b + attempt)};
      if (add_if_valid(line)) return;
    }
  }

  bool add_if_valid(ValueLine line) {
    Estimate estimate = forms()[line.form].estimate(letters(line));
    if (!estimate.valid || !std::isfinite(estimate.likely.size())) return false;
    if (estimate.likely.size() > too_large) {
      line.factor = std::exp2(-std::ceil(std::log2(estimate.likely.size() / large)));
      estimate = estimate * Estimate(line.factor);
    }
    result_.values.push_back(line);
    estimates_.push_back(estimate);
    return true;
  }

  void add_output(const Gene& gene) {
    OutputLine line;
    line.value = operand(gene.a);
    if (gene.what % 4 == 3) choose_anchor(gene.what / 4, line);
    Estimate estimate = estimates_[line.value];
    if (line.gate) estimate = estimates::joined(estimate, estimates_[*line.gate]);
    if (!estimate.tile || !(estimate.axes & head_bit)) return;
    const std::string name = fmt::format("y{}", result_.outputs.size());
    if (gene.b % 4 == 3) line.dtype = pick({f32, bf16, f32, fp16}, gene.b / 4);
    const bool fp16_storage = line.dtype ? *line.dtype == fp16 : result_.options["out"] == "fp16";
    if (!line.anchor.empty() && fp16_storage) line.dtype = bf16;  // 2^58 is not to be stored as fp16
    if (line.dtype && gene.b / 16 % 2 == 1) {
      result_.options["out." + name] = dtype_name(*line.dtype);
      line.dtype.reset();
    }
    if (gene.c % 8 == 7) line.unit = pick({"ln2", "scale", "0.5", "scale * ln2"}, gene.c / 8);
    if (gene.detail % 4 == 3) result_.options["upstream." + name] = pick({"bf16", "f32", "fp16row"}, gene.detail / 4);
    result_.outputs.push_back(line);
  }

  /// A gate beside the value, whose exponential alone need not be a float; else an exponential that the value has.
  void choose_anchor(int number, OutputLine& line) {
    constexpr double most = 110;  // the range of an exponent, so that what is stored has room on both sides
    const bool by_subchunk = number % 2 == 1 && result_.shape.chunk > subchunk_rows;
    std::vector<int> gates;
    for (int i = int(estimates_.size()) - 1; i >= int(result_.tensors.size()); --i) {
      const Estimate& estimate = estimates_[i];
      const double range = by_subchunk ? estimate.change() : estimate.proven.high - estimate.proven.low;
      if (estimate.tile && (estimate.axes & rows_bit) && range > 0 && range <= most) gates.push_back(i);
    }
    const Decay decay = estimates_[line.value].decay;
    const bool has_decay = decay == Decay::of_rows || (decay == Decay::without_rows && !by_subchunk);
    if (!gates.empty() && decay == Decay::none) {
      line.gate = gates[size_t(number / 4) % gates.size()];
      line.inverse = number / 2 % 2 == 1;
    } else if (!has_decay) {
      return;
    }
    line.anchor = by_subchunk ? "subchunk" : "static";
  }

  void drop_unused() {
    const int tensors = int(result_.tensors.size());
    std::vector<char> used(estimates_.size(), 0);
    for (const OutputLine& output : result_.outputs) {
      used[output.value] = 1;
      if (output.gate) used[*output.gate] = 1;
    }
    constexpr char names[] = {'a', 'b', 'c', 'g', 'p'};
    for (int i = int(result_.values.size()) - 1; i >= 0; --i) {
      ValueLine& line = result_.values[i];
      for (int o = 0; o < 5; ++o)
        if (used[tensors + i] && forms()[line.form].uses(names[o])) used[line.operands[o]] = 1;
    }
    std::vector<int> moved(used.size(), 0);
    int kept = 0;
    for (size_t i = 0; i < used.size(); ++i) moved[i] = used[i] ? kept++ : 0;
    std::vector<TensorLine> kept_tensors;
    std::vector<ValueLine> kept_values;
    std::vector<Estimate> kept_estimates;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      kept_estimates.push_back(estimates_[i]);
      if (int(i) < tensors) {
        kept_tensors.push_back(result_.tensors[i]);
        continue;
      }
      ValueLine line = result_.values[int(i) - tensors];
      for (int& operand : line.operands) operand = moved[operand];
      kept_values.push_back(line);
    }
    result_.tensors = kept_tensors, result_.values = kept_values, estimates_ = kept_estimates;
    for (OutputLine& output : result_.outputs) {
      output.value = moved[output.value];
      if (output.gate) output.gate = moved[*output.gate];
    }
  }

  /// Values that the forward writes and the backward reads.
  void choose_saved() {
    if (next_setting() % 4 != 3) return;
    const int tensors = int(result_.tensors.size());
    for (size_t i = 0; i < result_.values.size(); ++i) {
      const Estimate& estimate = estimates_[tensors + i];
      if (!result_.values[i].named || !estimate.tile || !(estimate.axes & head_bit)) continue;
      std::string& saved = result_.options["save"];
      saved += (saved.empty() ? "" : ",") + result_.name(tensors + int(i));
      if (next_setting() % 2 == 0) return;
    }
  }

  /// Of the tensors that are still there.
  void move_dtypes_to_options() {
    for (TensorLine& line : result_.tensors)
      if (line.dtype_option) result_.options["dtype." + line.name] = dtype_name(*std::exchange(line.dtype, {}));
  }

  const Recipe& recipe_;
  size_t at_ = 0;
  Sketch result_;
  std::vector<Estimate> estimates_;  // tensors, then values
};

}  // namespace

Sketch sketch_of(const Recipe& recipe) { return Sketcher(recipe).sketch(); }

}  // namespace kdagen::fuzz
