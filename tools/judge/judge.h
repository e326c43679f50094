// SPDX-License-Identifier: Apache-2.0
// When is a computed tensor close enough to its reference? Every rule is an inequality of absolute errors; relative
// figures are those inequalities divided by the size of the reference. A NaN fails all of them, an absent tensor too.
//
//   2-norm    ||x - ref||   <= rel * ||ref||,     rel = min(K ||e|| / ||ref||, declared)   + storage
//   max       max|x - ref|  <= max * max|ref|,    max = min(K max e / max|ref|, declared)  + storage
//   a head    ||x - ref||_h <= K ||e||_h + storage * ||ref||_h       (where an error analysis is given)
//             or what is unavoidable, times 1.05, if that is more
//   parameter ||x - ref|| <= declared * ||ref||, and
//             ||x - ref||_h <= factor * b_h * sqrt(sum of terms^2)_h   (b_h: that head's bound of the gradient it sums)
//
// e is the running error analysis, an absolute bound beside each element. Storage is what one rounding into the dtype
// may add: 0.46 of its unit roundoff in the 2-norm (bf16 1.8e-3), or what it does to the reference itself where that is
// more (few elements carry the norm); one roundoff in the max; and the format's underflow.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kdagen {

/// How the elements of a tensor fall to heads: element i belongs to head (i / width) % heads. One head: no head axis.
struct HeadLayout {
  int64_t heads = 1;
  int64_t width = 1;
};

/// What a tensor is judged by. At least one of `errors`, `rel_l2` and `terms` must be there.
struct Criteria {
  std::string dtype = "f32";                    ///< the storage that the tensor went through
  double factor = 1;                            ///< K
  const std::vector<double>* errors = nullptr;  ///< e, per element
  std::optional<double> rel_l2, max_rel;        ///< declared bounds, before storage
  std::optional<double> storage, max_storage;   ///< declared storage additions instead of the dtype's
  /// Errors (x - ref) that the best possible program would show too; 1.05 times their norm and max is always allowed.
  const std::vector<double>* unavoidable = nullptr;
  HeadLayout layout;
  /// Parameter rule instead of the others: per element the square root of the sum of squared terms, and factor * b, of
  /// each head or one for all.
  const std::vector<double>* terms = nullptr;
  std::vector<double> terms_factor;
  /// Elements that belong to no sequence and must be exactly 0 (nonzero entries mark them).
  const std::vector<char>* must_be_zero = nullptr;
};

struct Verdict {
  std::string name;
  double rel_l2 = 0, rel_bound = 0, max_rel = 0, max_bound = 0;
  /// ||e|| / (u ||ref||), u = 2^-24: how much the program amplifies a rounding error.
  std::optional<double> kappa;
  bool ok = false;
  std::string note;  ///< why it is not ok, where the four figures do not say it
};

/// Compares `actual` (null: absent) with `reference`. Figures are relative to the reference's norm and max; a reference
/// of zeros makes them infinite unless the error is 0 too. When one head fails while the whole passes, the figures are
/// that head's.
/// Throws KdagenBug when sizes differ or there is nothing to judge by.
Verdict judge(const std::string& name, const std::vector<double>& reference, const std::vector<double>* actual,
              const Criteria& criteria);

/// The bound on ||x - ref||/||ref|| of every head before storage is added: K ||e||/||ref|| or declared, the smaller; 0
/// for a head of zeros.
std::vector<double> head_bounds(const std::vector<double>& reference, const Criteria& criteria);

/// What one rounding into `dtype` may add to the relative 2-norm error of this reference.
double storage_rel(const std::vector<double>& reference, const std::string& dtype, std::optional<double> declared = {});
/// ... and to its relative max error.
double storage_max(const std::vector<double>& reference, const std::string& dtype, std::optional<double> declared = {});

}  // namespace kdagen
