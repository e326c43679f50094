// SPDX-License-Identifier: Apache-2.0
// Host tensors of the judging side: float64 values that are exactly representable in the tensor's dtype,
// the shape of a problem (sequences, tiles, heads), and round-to-nearest-even into the storage dtypes.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace kdagen {

/// One chunk of one sequence: rows [first_row, first_row + rows) of the flattened [B*T] token axis.
struct Tile {
  int64_t sequence;   ///< batch row (fixed length) or sequence number (packed)
  int64_t local;      ///< chunk number inside its sequence
  int64_t first_row;  ///< in [0, B*T)
  int64_t rows;       ///< 1..chunk valid rows
};

/// Sizes of one problem. Fixed length: `batch` rows of `seqlens[0]` tokens each. Packed: batch is 1, the sequences of
/// length seqlens[i] follow one another, and `dead_rows` rows of the buffer lie after the last offset.
struct Shape {
  int64_t batch = 1;
  int64_t heads = 4;
  std::vector<int64_t> seqlens{64};
  bool packed = false;
  int64_t dead_rows = 0;
  int64_t chunk = 16;
  int64_t dim = 128;

  /// T: rows of one batch row in memory, dead rows included.
  int64_t tokens() const;
  /// B*T.
  int64_t rows() const { return batch * tokens(); }
  /// B for fixed length, the number of sequences (empty ones included) when packed.
  int64_t sequences() const { return packed ? static_cast<int64_t>(seqlens.size()) : batch; }
  /// Tile slots: B*ceil(T/C) for fixed length, ceil(T/C)+N packed. Extent of per-chunk tensors.
  int64_t capacity() const;
  /// The tiles that hold rows, numbered densely in sequence order; at most capacity() of them.
  std::vector<Tile> tiles() const;
  /// cu_seqlens [N+1] when packed, empty otherwise.
  std::vector<int64_t> cumulative_lengths() const;
  /// Throws UsageError when the sizes contradict one another (packed with batch > 1, negative lengths, ...).
  void validate() const;
};

enum class AxisRole { rows, chunk, head, feature };

/// What a spec declares about a tensor. `axes` may come in any order; tensors are stored in the order of AxisRole.
struct Declaration {
  std::string name;
  std::string dtype;  ///< bf16, fp16, f32 or f64
  std::vector<AxisRole> axes;
  bool is_param = false;
  bool optional = false;
  int64_t every =
      0;  ///< not 0, with axes rows and chunk: a row of each sub-chunk of so many rows, [capacity, sub-chunks, ...]
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();

  bool has(AxisRole role) const;
  /// Integers of the forward: anchors, which have no cotangent.
  bool is_integer() const { return dtype == "i32"; }
};

/// Dense values in canonical order: rows tensors [B,T,H,D] / [B,T,H] (B = 1 when packed), per-chunk tensors
/// [capacity,H,D], params as declared ([H,D], [H], [D] or []). `values` are already rounded to `dtype`.
struct HostTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<double> values;
};
using Tensors = std::map<std::string, HostTensor>;

/// The canonical dense shape of a declared tensor.
std::vector<int64_t> dense_shape(const Declaration& declaration, const Shape& shape);
int64_t element_count(const std::vector<int64_t>& shape);
/// A zero-filled tensor.
HostTensor make_tensor(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape);

/// A binary floating-point storage format. `unit` is its unit roundoff 2^-precision, `tiny` half its smallest subnormal
/// (the largest error of a rounding that underflows).
struct FloatFormat {
  int precision;     ///< significand bits, the implicit one included
  int min_exponent;  ///< exponent of the smallest normal number
  double max;
  double unit;
  double tiny;
};
/// Throws UsageError on a name that is not bf16, fp16, f32 or f64.
const FloatFormat& float_format(const std::string& dtype);

/// x rounded once to nearest even in the format, subnormals kept, overflow to infinity; NaN stays NaN.
double round_to(double x, const FloatFormat& format);
double round_to(double x, const std::string& dtype);
/// A copy of `tensor` stored in `dtype`.
HostTensor stored_as(const HostTensor& tensor, const std::string& dtype);

/// A small counter-based generator: the same draws on every platform and standard library.
class Random {
 public:
  /// Streams of different (seed, stream) pairs are independent; name streams after the tensor they fill.
  Random(uint64_t seed, const std::string& stream);
  double uniform(double low, double high);
  double normal();

 private:
  uint64_t next();
  uint64_t state_;
};

}  // namespace kdagen
