// SPDX-License-Identifier: Apache-2.0
// A random spec as a list of lines: built through the DSL, or printed as the C++ that would build it.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "specs/workloads/tensor.h"
#include "tools/execute/launch.h"
#include "tools/fuzz/forms.h"
#include "tools/fuzz/recipe.h"

namespace kdagen::fuzz {

struct TensorLine {
  std::string name;
  bool is_param = false;
  unsigned axes = 0;             ///< of rows_bit, head_bit, feature_bit
  std::optional<DType> dtype;    ///< of an input, where the spec fixes it
  bool dtype_option = false;     ///< an option dtype.NAME fixes it
  std::optional<double> absent;  ///< optional, read as this
  std::optional<Interval> bounds;
};

/// A value: form(operands) * factor. Operands are numbers of values, tensors first.
struct ValueLine {
  int form = 0;
  std::array<int, 5> operands{};  ///< a, b, c, g, p
  double k = 1;
  long long n = 1;
  double factor = 1;
  bool named = false;
};

/// value, or value * 2^gate or value * 2^-gate.
struct OutputLine {
  int value = 0;
  std::optional<int> gate;
  bool inverse = false;
  std::optional<DType> dtype;
  std::string unit;    ///< "", or a constant as C++: ln2, scale
  std::string anchor;  ///< "", static or subchunk
};

struct Sketch {
  std::map<std::string, std::string> options;  ///< of the DSL and the compiler, as --set takes them
  Shape shape;                                 ///< to be tried at
  bool given_left_out = false;                 ///< optional inputs are not passed
  std::vector<std::string> schedule;           ///< wishes, as schedule= takes them; default where there are none
  CallersMemory memory;                        ///< of texts
  bool repeats = false;                        ///< texts are also given inputs that repeat along some dimensions
  std::vector<TensorLine> tensors;
  std::vector<ValueLine> values;
  std::vector<OutputLine> outputs;

  /// Name of a value, tensors first.
  std::string name(int value) const;
  /// Through the DSL; `options` are the DSL's alone.
  Spec build(const Options& options) const;
  /// The graph under this sketch's options.
  std::string graph() const;
  /// A spec file, with the command that checks it as a comment; `seed`: of the inputs, `on`: cpu, emulator or cuda.
  std::string cpp(uint64_t seed = 1, const std::string& on = "cpu") const;
  /// The arguments of `kdagen check` that try this spec the same way, but for the schedule.
  std::string check_arguments(uint64_t seed, const std::string& on = "cpu") const;
};

/// What a recipe stands for. Nothing in the sketch is without use.
Sketch sketch_of(const Recipe& recipe);

}  // namespace kdagen::fuzz
