// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/complement_scan.h"

#include "codegen/derive/derive.h"
#include "codegen/rewrite/products.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

bool stays_whole(Value value) { return !value.hasOneUse() && is_sum(value); }
bool any_sum(Value value) { return is_sum(value); }

/// A summand of a sum as one term: sums inside it are atoms.
struct Part {
  Weighted weighted;
  Term term;
};

std::optional<SmallVector<Part>> parts_of(Value sum) {
  SmallVector<Part> parts;
  for (const Weighted& weighted : summands(sum)) {
    if (!depends_on_cotangent(weighted.value)) return std::nullopt;
    Term term{{}, weighted.value};  // a sum with other uses stays whole
    if (!is_sum(weighted.value)) {
      auto form = linear_form(weighted.value, through_exponentials, any_sum);
      if (!form) return std::nullopt;
      term = form->front();
    }
    term.coefficient = term.coefficient * weighted.coefficient;
    parts.push_back({weighted, term});
  }
  return parts;
}

Product with_rows(const Product& product, StringRef rows, bool wanted) {
  Product result;
  for (Value factor : product.factors)
    if (type_of(factor).hasAxis(rows) == wanted) result.factors.push_back(factor);
  return result;
}

/// A summand of what is scanned or totalled: its own terms, and these times what stands in front of the scan or total
/// (the coefficient, and the factors without rows) and times its coefficient.
struct Summand {
  Weighted weighted;
  LinearForm own, scaled;
};
using Summands = std::vector<Summand>;

/// `whole`: the value is one term, whatever it is.
std::optional<Summands> summands_of(Value value, const Term& front, StringRef rows, bool whole,
                                    llvm::function_ref<bool(Value)> stop) {
  Product factor = with_rows(front, rows, false);
  factor.coefficient = front.coefficient;
  SmallVector<Weighted> parts = {{Scalar(), value}};
  if (!whole && is_sum(value)) parts = summands(value);
  Summands result;
  for (const Weighted& part : parts) {
    std::optional<LinearForm> own = LinearForm{{{}, without_broadcast(part.value)}};
    if (!whole && !(stop && stop(part.value))) own = linear_form(part.value, through_exponentials, stop);
    if (!own) return std::nullopt;
    LinearForm scaled = *own;
    for (Term& term : scaled) {
      term.multiply(factor);
      term.coefficient = term.coefficient * part.coefficient;
    }
    result.push_back({part, *own, scaled});
  }
  return result;
}

LinearForm form_of(const Summands& all) {
  LinearForm form;
  for (const Summand& summand : all)
    for (const Term& term : summand.scaled) add_term(form, term);
  return form;
}

bool opposite(const Term& a, const Term& b) {
  return a.like(b) && a.coefficient.coefficient == -b.coefficient.coefficient;
}

/// The terms of `form` that `other` has with the opposite sign.
LinearForm opposite_terms(const LinearForm& form, const LinearForm& other) {
  LinearForm result;
  for (const Term& term : form)
    if (llvm::any_of(other, [&](const Term& candidate) { return opposite(term, candidate); })) result.push_back(term);
  return result;
}

/// The summands whose terms are all among `moving`, and the others. A term of the whole form may be several summands'
/// together, so their own coefficients do not count.
struct Split {
  SmallVector<Weighted> moved, kept;
};
Split split_summands(Builder& build, const Summands& all, const LinearForm& moving) {
  auto moved = [&](const Term& term) {
    return llvm::any_of(moving, [&](const Term& other) { return other.like(term); });
  };
  Split split;
  for (const Summand& summand : all) {
    size_t count = llvm::count_if(summand.scaled, moved);
    if (count == 0 || count == summand.scaled.size()) {
      (count > 0 ? split.moved : split.kept).push_back(summand.weighted);
      continue;
    }
    for (auto [term, own] : llvm::zip(summand.scaled, summand.own))
      (moved(term) ? split.moved : split.kept).push_back({summand.weighted.coefficient, build_term(build, own)});
  }
  return split;
}

struct ComplementScan {
  IRRewriter rewriter;
  RewriteReport& report;

  Builder builder_at(Operation* op) {
    rewriter.setInsertionPoint(op);
    return Builder(rewriter, unnamed(op->getLoc()));
  }

  Value in_front(Builder& build, const Term& front, Value value) {
    return value ? build_product(build, front, value) : Value();
  }

  /// One total and one scan of the sum `root`.
  bool complement(Value root, ArrayRef<Part> parts, const Part& total, const Part& scan) {
    auto sum = total.term.atom.getDefiningOp<SumOp>();
    auto scan_op = scan.term.atom.getDefiningOp<ScanOp>();
    StringRef rows = scan_op.getOver();
    if (with_rows(total.term, rows, true).factors != with_rows(scan.term, rows, true).factors) return false;
    struct Attempt {
      bool whole;
      llvm::function_ref<bool(Value)> stop;
    };
    for (const Attempt& attempt : {Attempt{true, stays_whole}, Attempt{false, stays_whole}, Attempt{false, {}}}) {
      auto totals = summands_of(sum.getX(), total.term, rows, attempt.whole, attempt.stop);
      auto scanned = summands_of(scan_op.getX(), scan.term, rows, false, attempt.stop);
      if (!totals || !scanned) continue;
      const LinearForm total_form = form_of(*totals), scanned_form = form_of(*scanned);
      const LinearForm in_scan = opposite_terms(total_form, scanned_form),
                       in_total = opposite_terms(scanned_form, total_form);
      if (in_scan.empty()) continue;
      Builder build = builder_at(root.getDefiningOp());
      Split from_total = split_summands(build, *totals, in_scan), from_scan = split_summands(build, *scanned, in_total);
      if (from_total.moved.empty() || from_scan.moved.empty()) continue;
      rebuild(build, root, parts, total, scan, from_total, from_scan);
      return true;
    }
    return false;
  }

  void rebuild(Builder& build, Value root, ArrayRef<Part> parts, const Part& total, const Part& scan,
               const Split& from_total, const Split& from_scan) {
    auto scan_op = scan.term.atom.getDefiningOp<ScanOp>();
    std::string rows = scan_op.getOver().str();
    auto full = [&](Value value) { return build.broadcast_like(value, scan_op); };  // a column's term still counts rows
    SmallVector<Weighted> result;
    auto push = [&](const Term& front, Value value) {
      result.push_back({Scalar(), build_product(build, front, value)});
    };
    for (const Part& part : parts) {
      if (&part == &scan) {
        if (!from_scan.kept.empty())
          push(scan.term,
               build.scan(full(build_sum(build, from_scan.kept)), rows, scan_op.getExclusive(), scan_op.getReverse()));
        push(total.term, build.scan(full(build_sum(build, from_total.moved)), rows, !scan_op.getExclusive(),
                                    !scan_op.getReverse()));
      } else if (&part == &total) {
        if (!from_total.kept.empty()) push(total.term, build.sum(full(build_sum(build, from_total.kept)), {rows}));
      } else {
        result.push_back(part.weighted);
      }
    }
    report.fired("complement-scan", root.getLoc());
    replace(rewriter, root.getDefiningOp(), build_sum(build, result));
  }

  /// Two scans of the same kind in one sum.
  bool merge(Value root, ArrayRef<Part> parts, const Part& first, const Part& second) {
    auto a = first.term.atom.getDefiningOp<ScanOp>(), b = second.term.atom.getDefiningOp<ScanOp>();
    if (a.getExclusive() != b.getExclusive() || a.getReverse() != b.getReverse()) return false;
    if (first.term.factors != second.term.factors || !a->hasOneUse() || !b->hasOneUse()) return false;
    Builder build = builder_at(root.getDefiningOp());
    Scalar common = common_factor({first.term.coefficient, second.term.coefficient});
    Value operand = build_sum(build, {{first.term.coefficient * common.inverse(), a.getX()},
                                      {second.term.coefficient * common.inverse(), b.getX()}});
    Term front = first.term;
    front.coefficient = common;
    Value scan = build.scan(build.broadcast_like(operand, a), a.getOver(), a.getExclusive(), a.getReverse());
    SmallVector<Weighted> result;
    for (const Part& part : parts) {
      if (&part == &first) result.push_back({Scalar(), build_product(build, front, scan)});
      if (&part != &first && &part != &second) result.push_back(part.weighted);
    }
    report.fired("suffix-sum", root.getLoc());
    replace(rewriter, root.getDefiningOp(), build_sum(build, result));
    return true;
  }

  bool in_sum(Value root) {
    auto parts = parts_of(root);
    if (!parts) return false;
    for (const Part& scan : *parts) {
      auto scan_op = scan.term.atom.getDefiningOp<ScanOp>();
      if (!scan_op) continue;
      for (const Part& other : *parts) {
        auto sum = other.term.atom.getDefiningOp<SumOp>();
        bool total = sum && sum.getOver().size() == 1 &&
                     llvm::cast<StringAttr>(sum.getOver()[0]).getValue() == scan_op.getOver();
        if (total && complement(root, *parts, other, scan)) return true;
        if (&scan < &other && other.term.atom.getDefiningOp<ScanOp>() && merge(root, *parts, scan, other)) return true;
      }
    }
    return false;
  }

  /// A suffix sum of a value that stands in the last row alone is that value, in every row.
  bool from_last(ScanOp scan) {
    if (!scan.getReverse() || scan.getExclusive() || !depends_on_cotangent(scan.getX())) return false;
    auto parts = is_sum(scan.getX()) ? summands(scan.getX()) : SmallVector<Weighted>{{Scalar(), scan.getX()}};
    SmallVector<Weighted> kept;
    SmallVector<std::pair<Term, AtLastOp>> last;
    for (const Weighted& part : parts) {
      auto form =
          depends_on_cotangent(part.value) ? linear_form(part.value, through_exponentials, any_sum) : std::nullopt;
      auto at_last = form && form->size() == 1 ? form->front().atom.getDefiningOp<AtLastOp>() : AtLastOp();
      if (!at_last || !with_rows(form->front(), scan.getOver(), true).factors.empty()) {
        kept.push_back(part);
        continue;
      }
      form->front().coefficient = form->front().coefficient * part.coefficient;
      last.push_back({form->front(), at_last});
    }
    if (last.empty()) return false;
    Builder build = builder_at(scan);
    SmallVector<Weighted> result;
    if (!kept.empty())
      result.push_back(
          {Scalar(), build.scan(build.broadcast_like(build_sum(build, kept), scan), scan.getOver(), false, true)});
    for (auto& [front, at_last] : last) result.push_back({Scalar(), build_product(build, front, at_last.getX())});
    report.fired("suffix-sum", scan.getLoc());
    replace(rewriter, scan, build_sum(build, result));
    return true;
  }

  bool apply_once(KernelOp kernel) {
    for (Operation& op : kernel.block()) {
      if (auto scan = llvm::dyn_cast<ScanOp>(op); scan && from_last(scan)) return true;
      if (!llvm::isa<AddOp, SubOp>(op) || !is_sum_root(op.getResult(0)) || !depends_on_cotangent(op.getResult(0)))
        continue;
      if (in_sum(op.getResult(0))) return true;
    }
    return false;
  }
};

}  // namespace

void complement_scan(KernelOp kernel, RewriteReport& report) {
  ComplementScan rewrite{IRRewriter(kernel.getContext()), report};
  while (rewrite.apply_once(kernel)) clean_up(kernel);
}

}  // namespace kdagen::kda
