// SPDX-License-Identifier: Apache-2.0
// Hands the fixed-point prelude's functions to the tests, element by element.
#include <kdagen/fixed_point.cuh>

struct Conversions {
  const float* x;
  int* units;
  float *widened, *exp2, *exp2_normal;
  long long limit, count;
};

template <int bits>
KD_FUNCTION void convert(const Conversions& a) {
  for (long long i = 0; i < a.count; ++i) {
    const Fixed<bits> fixed = to_fixed<bits>(a.x[i], static_cast<int>(a.limit));
    a.units[i] = fixed.units;
    a.widened[i] = to_float(fixed);
    a.exp2[i] = approx_exp2(fixed);
    a.exp2_normal[i] = approx_exp2_normal(fixed);
  }
}

KD_KERNEL(1, 1) void convert_20(const Conversions a) { convert<20>(a); }
KD_ENTRY(convert_20, Conversions);
KD_KERNEL(1, 1) void convert_22(const Conversions a) { convert<22>(a); }
KD_ENTRY(convert_22, Conversions);
KD_KERNEL(1, 1) void convert_24(const Conversions a) { convert<24>(a); }
KD_ENTRY(convert_24, Conversions);
KD_KERNEL(1, 1) void convert_30(const Conversions a) { convert<30>(a); }
KD_ENTRY(convert_30, Conversions);

/// a and b, element by element.
struct Sums {
  const int *a, *b;
  int *sum, *difference, *negated;
  long long count;
};

KD_KERNEL(1, 1) void sums(const Sums s) {
  for (long long i = 0; i < s.count; ++i) {
    const Fixed<24> a = {s.a[i]}, b = {s.b[i]};
    s.sum[i] = (a + b).units;
    s.difference[i] = (a - b).units;
    s.negated[i] = (-a).units;
  }
}
KD_ENTRY(sums, Sums);

/// The nearest whole numbers, and integers of floats, one by one and four at a time.
struct Wholes {
  const int* units;
  int* whole;
  const float* x;
  int *one, *four;
  long long count;
};

KD_KERNEL(1, 1) void wholes(const Wholes s) {
  for (long long i = 0; i < s.count; ++i) {
    s.whole[i] = nearest_whole(Fixed<22>{s.units[i]}).units;
    s.one[i] = to<int>(s.x[i]);
  }
  for (long long i = 0; i < s.count; i += 4) store4<true>(s.four + i, s.x + i);
}
KD_ENTRY(wholes, Wholes);

/// The four scans of one number a row, and its total.
struct Scans {
  const int* x;
  int *inclusive, *exclusive, *reverse, *reverse_exclusive;
  int* total;
  long long rows;
};

KD_KERNEL(32, 1) void scans(const Scans s) {
  KD_SHARED(Fixed<24>, x, 32);
  KD_SHARED(Fixed<24>, copy, 32);
  const int row = static_cast<int>(threadIdx.x), rows = static_cast<int>(s.rows);
  if (row < rows) x[row] = {s.x[row]};
  block_barrier();
  if (row < 8) {  // through registers, four at a time
    Fixed<24> four[4];
    if (4 * row < rows / 4 * 4) {
      load4<true>(&x[4 * row], four);
      store4<true>(&copy[4 * row], four);
    }
  }
  if (row < rows && row >= rows / 4 * 4) copy[row] = x[row];
  block_barrier();
  s.inclusive[row] = row_scan<32, false, false, true>(copy, row, rows).units;
  s.exclusive[row] = row_scan<32, true, false, true>(copy, row, rows).units;
  s.reverse[row] = row_scan<32, false, true, true>(copy, row, rows).units;
  s.reverse_exclusive[row] = row_scan<32, true, true, true>(copy, row, rows).units;
  s.total[row] = row_total<32>(copy, rows).units;
}
KD_ENTRY(scans, Scans);
