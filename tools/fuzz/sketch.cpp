// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/sketch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/options.h"
#include "kdagen/graph.h"

namespace kdagen::fuzz {
namespace {

/// Defaults of the spec's own options.
constexpr double scale_default = 0.375, rate_default = 1.25;

std::string literal(double x) {
  return fmt::format("{}", x).find_first_of(".en") == std::string::npos ? fmt::format("{}.0", x) : fmt::format("{}", x);
}

std::string axes_text(unsigned axes) {
  std::vector<std::string> names;
  if (axes & rows_bit) names.push_back("t");
  if (axes & head_bit) names.push_back("h");
  if (axes & feature_bit) names.push_back("d");
  return fmt::format("{{{}}}", fmt::join(names, ", "));
}

/// Options that the spec function reads; the others are the compiler's.
std::map<std::string, std::string> spec_options(const Sketch& sketch) {
  std::map<std::string, std::string> options = sketch.options;
  take_compile_options(options);
  return options;
}

Constant unit_of(const std::string& text, const Constant& scale) {
  return text == "ln2" ? ln2 : text == "scale" ? scale : text == "scale * ln2" ? scale * ln2 : Constant(0.5);
}

std::string tensor_text(const TensorLine& tensor) {
  std::string text =
      fmt::format("s.{}(\"{}\", {}{})", tensor.is_param ? "param" : "input", tensor.name,
                  tensor.dtype ? fmt::format("{}, ", dtype_name(*tensor.dtype)) : "", axes_text(tensor.axes));
  if (tensor.absent) text += fmt::format(".optional({})", literal(*tensor.absent));
  if (tensor.bounds) text += fmt::format(".bounds({}, {})", literal(tensor.bounds->low), literal(tensor.bounds->high));
  return text;
}

}  // namespace

std::string Sketch::name(int value) const {
  return value < int(tensors.size()) ? tensors[value].name : fmt::format("v{}", value - int(tensors.size()));
}

Spec Sketch::build(const Options& options) const {
  Spec s("fuzz", "a random spec", options);
  const Axis t = s.rows("t"), h = s.heads("h"), d = s.features("d");
  const Constant scale = options.number("scale", scale_default), rate = options.number("rate", rate_default);
  std::vector<Value> all;
  for (const TensorLine& line : tensors) {
    Axes axes;
    if (line.axes & rows_bit) axes.push_back(t);
    if (line.axes & head_bit) axes.push_back(h);
    if (line.axes & feature_bit) axes.push_back(d);
    Tensor tensor = line.is_param ? s.param(line.name, axes)
                    : line.dtype  ? s.input(line.name, *line.dtype, axes)
                                  : s.input(line.name, axes);
    if (line.absent) tensor.optional(*line.absent);
    if (line.bounds) tensor.bounds(line.bounds->low, line.bounds->high);
    all.push_back(tensor);
  }
  for (const ValueLine& line : values) {
    const ValueLetters letters{all[line.operands[0]],
                               all[line.operands[1]],
                               all[line.operands[2]],
                               all[line.operands[3]],
                               all[line.operands[4]],
                               line.k,
                               line.n,
                               t,
                               h,
                               d,
                               scale,
                               rate};
    Value value = forms()[line.form].value(letters);
    if (line.factor != 1) value = value * line.factor;
    all.push_back(line.named ? s.let(name(int(all.size())), value) : value);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputLine& line = outputs[i];
    const Value& value = all[line.value];
    Output& output = s.output(fmt::format("y{}", i),
                              line.gate ? value * exp2(line.inverse ? -all[*line.gate] : all[*line.gate]) : value);
    if (!line.anchor.empty()) output.anchor(line.anchor);
    if (line.dtype) output.dtype(*line.dtype);
    if (!line.unit.empty()) output.cotangent_unit(unit_of(line.unit, scale));
  }
  return s;
}

std::string Sketch::graph() const { return build(Options(spec_options(*this))).graph(); }

std::string Sketch::check_arguments(uint64_t seed, const std::string& on) const {
  std::string text;
  for (const auto& [key, value] : options) text += fmt::format(" --set {}={}", key, value);
  if (shape.packed)
    text += fmt::format(" --seqlens {}{}", fmt::join(shape.seqlens, ","),
                        shape.dead_rows > 0 ? fmt::format(" --unused-rows {}", shape.dead_rows) : "");
  else
    text += fmt::format(" --tokens {} --batch {}", shape.seqlens.front(), shape.batch);
  text += fmt::format(" --heads {} --seed {}", shape.heads, seed);
  if (on != "cpu") {
    text += " --on " + on;
    if (memory.base_offset != 0) text += fmt::format(" --base-offset {}", memory.base_offset);
    if (memory.strides != 0) text += fmt::format(" --strides {}", memory.strides);
    if (shape.packed && memory.offsets == runtime::OffsetType::i64) text += " --cu-seqlens i64";
  }
  return text.substr(1);
}

std::string Sketch::cpp(uint64_t seed, const std::string& on) const {
  std::string text = fmt::format("// kdagen check fuzz.cpp {}\n#include <kdagen/kdagen.h>\nusing namespace kdagen;\n\n",
                                 check_arguments(seed, on));
  text +=
      "static Spec fuzz(const Options& o) {\n  Spec s(\"fuzz\", \"a random spec\", o);\n"
      "  Axis t = s.rows(\"t\"), h = s.heads(\"h\"), d = s.features(\"d\");\n";
  text += fmt::format("  Constant scale = o.number(\"scale\", {}), rate = o.number(\"rate\", {});\n",
                      literal(scale_default), literal(rate_default));
  for (const TensorLine& tensor : tensors) text += fmt::format("  Value {} = {};\n", tensor.name, tensor_text(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueLine& line = values[i];
    std::string expression = written(forms()[line.form], [&](char letter) -> std::string {
      switch (letter) {
        case 'a':
          return name(line.operands[0]);
        case 'b':
          return name(line.operands[1]);
        case 'c':
          return name(line.operands[2]);
        case 'g':
          return name(line.operands[3]);
        case 'p':
          return name(line.operands[4]);
        case 'k':
          return literal(line.k);
        case 'n':
          return std::to_string(line.n);
        case 'x':
          return "scale";
        case 'y':
          return "rate";
        default:
          return std::string(1, letter);
      }
    });
    if (line.factor != 1) expression = fmt::format("({}) * {}", expression, literal(line.factor));
    const std::string own = name(int(tensors.size() + i));
    if (line.named) expression = fmt::format("s.let(\"{}\", {})", own, expression);
    text += fmt::format("  Value {} = {};\n", own, expression);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputLine& line = outputs[i];
    text += fmt::format("  s.output(\"y{}\", {}", i, name(line.value));
    if (line.gate) text += fmt::format(" * exp2({}{})", line.inverse ? "-" : "", name(*line.gate));
    text += ")";
    if (!line.anchor.empty()) text += fmt::format(".anchor(\"{}\")", line.anchor);
    if (line.dtype) text += fmt::format(".dtype({})", dtype_name(*line.dtype));
    if (!line.unit.empty()) text += fmt::format(".cotangent_unit({})", line.unit);
    text += ";\n";
  }
  return text + "  return s;\n}\nKDAGEN_SPEC(fuzz, fuzz)\n";
}

}  // namespace kdagen::fuzz
