// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/helpers.h"

#include <fmt/format.h>

using namespace kdagen::schedule;

namespace kdagen::emit {
namespace {

/// "x[j]" or 0 where the lane's upper four columns lie past the tensor.
std::string upper_present(const Tiling& tiling) {
  return tiling.dim == tiling.width ? "" : fmt::format("{} + 4 * lane < {}", tiling.width / 2, tiling.dim);
}
std::string lower_present(const Tiling& tiling) {
  return tiling.dim >= tiling.width / 2 ? "" : fmt::format("4 * lane < {}", tiling.dim);
}

void print_lanes_tree(Writer& out, const Tiling& tiling, bool sum) {
  for (int mask = 1; mask < tiling.lanes; mask *= 2) {
    std::string note =
        fmt::format("  // every lane holds the {} of its group of {} lanes", sum ? "sum" : "maximum", 2 * mask);
    if (sum)
      out.line(fmt::format("sum += lane_xor(sum, {});{}", mask, note));
    else
      out.line(fmt::format(
          "{{ const float theirs = lane_xor(most, {}); if (!(theirs <= most) && most == most) most = theirs; }}{}",
          mask, note));
  }
}

void print_row_access(Writer& out, const Tiling& tiling, bool load) {
  std::string upper = upper_present(tiling), lower = lower_present(tiling);
  int half = tiling.width / 2;
  if (load) {
    out.line("/// A lane's eight columns of a row; 0 where the row or the column is absent.");
    out.line("template <bool aligned, class T>");
    out.open("KD_FUNCTION void load_row(const T* from, int lane, bool present, float (&x)[8])");
    out.line("#pragma unroll");
    out.line("for (int i = 0; i < 8; ++i) x[i] = 0.0f;");
    out.line("const T* const place = from + 4 * lane;");
    out.line(fmt::format("if (present{}) load4<aligned>(place, &x[0]);", lower.empty() ? "" : " && " + lower));
    out.line(
        fmt::format("if (present{}) load4<aligned>(place + {}, &x[4]);", upper.empty() ? "" : " && " + upper, half));
  } else {
    out.line("template <bool aligned, class T>");
    out.open("KD_FUNCTION void store_row(T* to_where, int lane, const float (&x)[8])");
    out.line("T* const place = to_where + 4 * lane;");
    out.line(fmt::format("{}store4<aligned>(place, &x[0]);", lower.empty() ? "" : "if (" + lower + ") "));
    out.line(fmt::format("{}store4<aligned>(place + {}, &x[4]);", upper.empty() ? "" : "if (" + upper + ") ", half));
  }
  out.close();
  out.line();
}

void print_row_dot(Writer& out, const Tiling& tiling) {
  std::string upper = upper_present(tiling);
  out.line("/// Sum of products along a row: fma(x1, y1, x0*y0) for neighbouring columns, then as row_sum.");
  out.open("KD_FUNCTION float row_dot(const float (&x)[8], const float (&y)[8], int lane)");
  out.line("float pair[4];");
  out.line("#pragma unroll");
  out.line("for (int j = 0; j < 4; ++j) pair[j] = fmaf(x[2 * j + 1], y[2 * j + 1], x[2 * j] * y[2 * j]);");
  if (!lower_present(tiling).empty())
    out.line(fmt::format("if (!({})) pair[0] = pair[1] = 0.0f;", lower_present(tiling)));
  if (!upper.empty()) out.line(fmt::format("if (!({})) pair[2] = pair[3] = 0.0f;", upper));
  out.line("float sum = (pair[0] + pair[1]) + (pair[2] + pair[3]);");
  print_lanes_tree(out, tiling, true);
  out.line("return sum;");
  out.close();
  out.line();
}

void print_column_numbers(Writer& out) {
  out.open("struct ColumnNumbers");
  out.line("float values[8];");
  out.close(";");
  out.open("KD_FUNCTION ColumnNumbers column_numbers(int lane)");
  out.line("ColumnNumbers numbers;");
  out.line("#pragma unroll");
  out.line("for (int i = 0; i < 8; ++i) numbers.values[i] = static_cast<float>(column_of(lane, i));");
  out.line("return numbers;");
  out.close();
  out.line();
}

void print_row_dot_one(Writer& out) {
  out.open("KD_FUNCTION float row_dot(const float (&x)[8], float y, int lane)");
  out.line("float all[8];");
  out.line("#pragma unroll");
  out.line("for (int i = 0; i < 8; ++i) all[i] = y;");
  out.line("return row_dot(x, all, lane);");
  out.close();
  out.line();
}

/// `normal`: the argument of the root is never subnormal or 0.
void print_row_inverse_norm(Writer& out, bool normal) {
  std::string root = normal ? "approx_rsqrt_normal" : "approx_rsqrt";
  out.line(
      "/// rsqrt(factor * sum x^2 + eps) of a row. Where the sum is no finite number, that of x * 2^-72, times 2^-72; eps is nothing beside it.");
  out.open(fmt::format("KD_FUNCTION float row_inverse_norm{}(const float (&x)[8], float factor, float eps, int lane)",
                       normal ? "" : "_to_zero"));
  out.line("const float squares = row_dot(x, x, lane);");
  out.line(fmt::format("float inverse = {}(squares * factor + eps);", root));
  out.line("const bool finite = squares <= 3.4028235e38f;");
  out.open("if (any_lane(!finite))");
  out.line("float small[8];");
  out.line("#pragma unroll");
  out.line("for (int i = 0; i < 8; ++i) small[i] = scale_by_power_of_two(x[i], -72);");
  out.line("const float other = scale_by_power_of_two(approx_rsqrt(row_dot(small, small, lane) * factor), -72);");
  out.line("if (!finite) inverse = other;");
  out.close();
  out.line("return inverse;");
  out.close();
  out.line();
}

void print_row_sum(Writer& out, const Tiling& tiling) {
  std::string upper = upper_present(tiling), lower = lower_present(tiling);
  out.line(fmt::format(
      "/// Sum of a row by the tree over the bits 0, 1, top (in a lane), 2, 3, ... (across {} lanes) of the column number.",
      tiling.lanes));
  out.open("KD_FUNCTION float row_sum(const float (&x)[8], int lane)");
  out.line(fmt::format("const float lower = {}(x[0] + x[1]) + (x[2] + x[3]){};", lower.empty() ? "" : lower + " ? ",
                       lower.empty() ? "" : " : 0.0f"));
  out.line(fmt::format("const float upper = {}(x[4] + x[5]) + (x[6] + x[7]){};", upper.empty() ? "" : upper + " ? ",
                       upper.empty() ? "" : " : 0.0f"));
  out.line("float sum = lower + upper;");
  print_lanes_tree(out, tiling, true);
  out.line("return sum;");
  out.close();
  out.line();
}

void print_row_max(Writer& out, const Tiling& tiling) {
  std::string upper = upper_present(tiling), lower = lower_present(tiling);
  out.line("/// Maximum of a row; NaN if one is there.");
  out.open("KD_FUNCTION float row_max(const float (&x)[8], int lane)");
  out.line("float most = -__uint_as_float(0x7f800000u);");
  out.line("#pragma unroll");
  std::string present = "true";
  if (!upper.empty()) present = fmt::format("(i < 4 ? {} : {})", lower.empty() ? "true" : lower, upper);
  out.line(fmt::format("for (int i = 0; i < 8; ++i) if ({} && !(x[i] <= most) && most == most) most = x[i];", present));
  print_lanes_tree(out, tiling, false);
  out.line("return most;");
  out.close();
  out.line();
}
}  // namespace

void print_helpers(Writer& out, const Tiling& tiling, const std::set<std::string>& used) {
  if (tiling.width == 1) return;
  if (!used.empty())
    out.line(fmt::format(
        "// Row map: {} lanes a row; lane l owns the columns 4l..4l+3 (x[0..3]) and {}+4l..{}+4l+3 (x[4..7]).",
        tiling.lanes, tiling.width / 2, tiling.width / 2));
  if (used.count("column_of")) {
    out.line(fmt::format("KD_FUNCTION int column_of(int lane, int i) {{ return 4 * lane + (i < 4 ? i : {} + i - 4); }}",
                         tiling.width / 2));
    out.line();
  }
  if (used.count("column_numbers")) print_column_numbers(out);
  if (used.count("load_row")) print_row_access(out, tiling, true);
  if (used.count("store_row")) print_row_access(out, tiling, false);
  if (used.count("row_sum")) print_row_sum(out, tiling);
  if (used.count("row_dot")) print_row_dot(out, tiling);
  if (used.count("row_dot_one")) print_row_dot_one(out);
  for (bool normal : {true, false})
    if (used.count(normal ? "row_inverse_norm" : "row_inverse_norm_to_zero")) print_row_inverse_norm(out, normal);
  if (used.count("row_max")) print_row_max(out, tiling);
}

const char* variant_guard(bool aligned) { return aligned ? "#if KD_ALIGNED_VARIANT" : "#if KD_ANY_VARIANT"; }

}  // namespace kdagen::emit
