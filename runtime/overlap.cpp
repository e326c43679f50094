// SPDX-License-Identifier: Apache-2.0
#include "runtime/overlap.h"

#include <algorithm>
#include <vector>

#include "kdagen/error.h"

namespace kdagen::runtime {
namespace {

using Wide = __int128;

// The multiple of `stride` between two indices ranges over low..high.
struct Term {
  Wide stride, low, high;
};

// Terms by falling stride, those of equal stride merged; dimensions of one element contribute nothing.
std::vector<Term> difference_terms(const StridedView& a, const StridedView& b) {
  std::vector<Term> terms;
  const auto add = [&](const StridedView& view, Wide sign) {
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
      if (view.shape[i] <= 1 || view.strides[i] == 0) continue;
      const Wide last = sign * (view.shape[i] - 1);
      const auto same =
          std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.stride == view.strides[i]; });
      Term& term = same != terms.end() ? *same : terms.emplace_back(Term{view.strides[i], 0, 0});
      (sign > 0 ? term.high : term.low) += last;
    }
  };
  add(a, 1);
  add(b, -1);
  std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return x.stride > y.stride; });
  return terms;
}

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && a < 0); }

// Searches indices with sum(stride_k * x_k) + (byte inside an element) = target. Bounds of what the later terms can
// reach leave one or two candidates a level in any layout whose dimensions nest.
class Search {
 public:
  Search(const std::vector<Term>& terms, Wide low, Wide high) : terms_(terms), low_{low}, high_{high} {
    for (std::size_t k = terms.size(); k-- > 0;) {
      low_.insert(low_.begin(), low_.front() + terms[k].stride * terms[k].low);
      high_.insert(high_.begin(), high_.front() + terms[k].stride * terms[k].high);
    }
  }

  bool reaches(Wide target, std::size_t k = 0) {
    if (target < low_[k] || target > high_[k]) return false;
    if (k == terms_.size() || ++visited_ > limit) return true;
    const Term& term = terms_[k];
    const Wide first = std::max(term.low, -floor_divide(high_[k + 1] - target, term.stride));
    const Wide last = std::min(term.high, floor_divide(target - low_[k + 1], term.stride));
    for (Wide x = first; x <= last; ++x)
      if (reaches(target - x * term.stride, k + 1)) return true;
    return false;
  }

 private:
  static constexpr int limit = 1 << 18;
  const std::vector<Term>& terms_;
  std::vector<Wide> low_, high_;
  int visited_ = 0;
};

}  // namespace

std::uintptr_t end_of(const StridedView& view) {
  if (element_count(view.shape) == 0) return view.base;
  std::int64_t last = view.element_bytes;
  for (std::size_t i = 0; i < view.shape.size(); ++i)
    last = checked_add(last, checked_multiply(view.shape[i] - 1, view.strides[i]));
  std::uintptr_t end;
  if (__builtin_add_overflow(view.base, static_cast<std::uintptr_t>(last), &end))
    throw UsageError("its last element lies outside the address space");
  return end;
}

bool may_overlap(const StridedView& a, const StridedView& b) {
  if (element_count(a.shape) == 0 || element_count(b.shape) == 0) return false;
  if (end_of(a) <= b.base || end_of(b) <= a.base) return false;
  const std::vector<Term> terms = difference_terms(a, b);
  return Search(terms, -(b.element_bytes - 1), a.element_bytes - 1)
      .reaches(static_cast<Wide>(b.base) - static_cast<Wide>(a.base));
}

bool overlaps_itself(const StridedView& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, extent
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 0) return false;
    if (view.shape[i] > 1) dims.emplace_back(view.strides[i], view.shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t inner = view.element_bytes;  // bytes that the dimensions so far span
  for (const auto& [stride, extent] : dims) {
    if (stride < inner) return true;
    inner = checked_add(inner, checked_multiply(stride, extent - 1));
  }
  return false;
}

}  // namespace kdagen::runtime
