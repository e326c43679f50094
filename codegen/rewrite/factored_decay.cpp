// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/factored_decay.h"

#include <map>
#include <set>

#include "codegen/rewrite/products.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace kdagen::kda {
namespace {

/// A value that is needed as such, as a sum of terms.
struct Root {
  Value value;
  SmallVector<Weighted> summands;  ///< as they stand in the program; one may be several terms: x*(a + b)
  LinearForm form;
  SmallVector<size_t> summand_of;  ///< by term
  LinearForm whole;                ///< the same terms with products as atoms opened, to compare
};

/// Terms of `target` that are x times terms of `source` (none: terms that merely share x).
struct Group {
  size_t target;
  Value x;
  std::optional<size_t> source;
  struct Pair {
    size_t in_target, in_source;
    Scalar ratio;
  };
  SmallVector<Pair> pairs;
  bool exponential = false;

  /// What a term of the source weighs. Terms of the target that are equal once opened (x*p where p is shared, and
  /// x*2^c*dy with p = 2^c*dy written out) stand for one term of the source.
  Scalar weight(size_t in_source) const {
    Scalar total = Scalar::number(0.0);
    for (const Pair& pair : pairs) {
      if (pair.in_source != in_source) continue;
      total.symbols = pair.ratio.symbols;
      total.coefficient += pair.ratio.coefficient;
    }
    return total;
  }
  /// Another pair with the same term of the source must have the same symbols, and both must not cancel.
  bool takes(const Pair& added) const {
    Scalar present = weight(added.in_source);
    if (present.is(0.0)) return true;
    return present.symbols == added.ratio.symbols && present.coefficient + added.ratio.coefficient != 0.0;
  }
};

bool is_linear_op(Operation* op) { return llvm::isa<AddOp, SubOp, NegOp, MulOp>(op); }

bool has_several_uses(Value value) { return !value.hasOneUse() && is_linear_op(value.getDefiningOp()); }

bool is_root(Operation& op) {
  if (!is_linear_op(&op) || !depends_on_cotangent(op.getResult(0))) return false;
  Value value = op.getResult(0);
  while (value.hasOneUse() && llvm::isa<BroadcastOp>(*value.user_begin())) value = value.user_begin()->getResult(0);
  return !value.hasOneUse() || !is_linear_op(*value.user_begin());
}

/// The exponentials that stand in the term itself, not inside a value that is shared already.
bool holds_exponential(const Product& product) { return llvm::any_of(product.factors, is_exponential); }

/// The term with the factors that a product as atom brings along.
Term opened(const Term& term) {
  auto form = linear_form(term.atom, through_exponentials, is_sum);
  if (is_sum(term.atom) || !form || form->size() != 1) return term;
  Term result = form->front();
  result.multiply(term);
  return result;
}

/// A sum over features alone: f*sum(u) is sum(f*u) where f has no features.
SumOp row_sum(const Term& term) {
  auto sum = term.atom.getDefiningOp<SumOp>();
  if (!sum || !sum->hasOneUse() || !holds_exponential(term)) return {};
  for (Attribute name : sum.getOver()) {
    StringRef axis = llvm::cast<StringAttr>(name).getValue();
    if (kernel_of(sum.getOperation()).axis(axis).getRole() != AxisRole::Feature) return {};
    if (llvm::any_of(term.factors, [&](Value factor) { return type_of(factor).hasAxis(axis); })) return {};
  }
  return sum;
}

std::optional<Root> root_of(Value value) {
  Root root{value, summands(value), {}, {}, {}};
  SmallVector<std::pair<Term, size_t>> terms;
  for (auto [index, summand] : llvm::enumerate(root.summands)) {
    auto form = linear_form(summand.value, through_exponentials, has_several_uses);
    if (summand.value != value && has_several_uses(summand.value))
      form = LinearForm{{{}, without_broadcast(summand.value)}};
    if (!form) return std::nullopt;
    for (Term term : *form) {
      term.coefficient = term.coefficient * summand.coefficient;
      if (llvm::any_of(terms, [&](auto& other) { return other.first.same_product(term); })) return std::nullopt;
      terms.emplace_back(term, index);
    }
  }
  llvm::stable_sort(terms, [](auto& a, auto& b) { return term_before(a.first, b.first); });
  for (auto& [term, index] : terms) {
    root.form.push_back(term);
    root.summand_of.push_back(index);
    root.whole.push_back(opened(term));
  }
  return root;
}

class FactoredDecay {
 public:
  FactoredDecay(KernelOp kernel, RewriteReport& report) : rewriter_(kernel.getContext()), report_(report) {
    for (Operation& op : llvm::make_early_inc_range(kernel.block()))
      if (is_root(op)) gather_row_sums(op);
    for (Operation& op : kernel.block())
      if (is_root(op))
        if (auto root = root_of(op.getResult(0))) roots_.push_back(*root);
  }

  void run() {
    for (size_t target = 0; target < roots_.size(); ++target) group_terms(target);
    drop_nested_groups();
    for (size_t source = 0; source < roots_.size(); ++source) split_source(source);
    for (size_t target = 0; target < roots_.size(); ++target) rebuild_target(target);
  }

 private:
  /// f*sum_d(u) + g*sum_d(v) -> sum_d(f*u + g*v), so that f*u and g*v can be shared.
  void gather_row_sums(Operation& op) {
    auto root = root_of(op.getResult(0));
    if (!root) return;
    ArrayAttr over;
    std::map<size_t, bool> stays;  // by summand
    size_t count = 0;
    for (auto [term, summand] : llvm::zip(root->form, root->summand_of)) {
      SumOp sum = row_sum(term);
      if (sum && !over) over = sum.getOver();
      stays[summand] |= !sum || sum.getOver() != over;
    }
    for (size_t summand : root->summand_of) count += !stays[summand];
    if (count < 2) return;
    rewriter_.setInsertionPoint(&op);
    Builder build(rewriter_, unnamed(op.getLoc()));
    SmallVector<Weighted> inside, sum;
    for (auto [term, summand] : llvm::zip(root->form, root->summand_of)) {
      if (stays[summand]) continue;
      Term moved = term;
      moved.atom = moved.atom.getDefiningOp<SumOp>().getX();
      Scalar coefficient = std::exchange(moved.coefficient, Scalar());
      inside.push_back({coefficient, build_term(build, moved)});
    }
    sum.push_back({Scalar(), build.sum(build_sum(build, inside), axes_of(over))});
    for (auto [index, summand] : llvm::enumerate(root->summands))
      if (stays[index]) sum.push_back(summand);
    replace(rewriter_, &op, build_sum(build, sum));
  }

  // ---- finding ----

  /// Takes the largest group, then the largest among the terms left, and so on. A summand of several terms is taken
  /// apart only if all of them find a group.
  void group_terms(size_t target) {
    const Root& root = roots_[target];
    SmallVector<bool> banned(root.summands.size(), false);
    for (bool again = true; again;) {
      again = false;
      SmallVector<bool> taken;
      for (size_t summand : root.summand_of) taken.push_back(banned[summand]);
      std::vector<Group> groups;
      while (auto group = largest_group(target, taken)) {
        for (const auto& pair : group->pairs) taken[pair.in_target] = true;
        groups.push_back(*group);
      }
      for (auto [summand, grouped] : llvm::zip(root.summand_of, taken)) {
        bool partly = !grouped && llvm::any_of(llvm::zip(root.summand_of, taken), [&](auto term) {
          return std::get<0>(term) == summand && std::get<1>(term);
        });
        again |= partly;
        banned[summand] |= partly;
      }
      if (again) continue;
      groups_.insert(groups_.end(), groups.begin(), groups.end());
      for (const Group& group : groups)
        if (group.source) borrowed_[roots_[target].value].push_back(roots_[*group.source].value);
    }
  }

  std::optional<Group> largest_group(size_t target, ArrayRef<bool> taken) {
    std::optional<Group> best;
    auto consider = [&](const Group& group) {
      bool worthwhile =
          group.source ? group.exponential || group.pairs.size() > 1 : group.exponential && group.pairs.size() > 1;
      bool shared = group.source.has_value();
      if (worthwhile && !group.pairs.empty() &&
          (!best || std::pair(shared, group.pairs.size()) > std::pair(best->source.has_value(), best->pairs.size())) &&
          !(shared && depends_on(roots_[*group.source].value, roots_[target].value)))
        best = group;
    };
    for (Value x : factors_of(target, taken)) {
      for (size_t source = 0; source < roots_.size(); ++source)
        if (source != target && axes_within(roots_[source].value, roots_[target].value))
          consider(group_with(target, taken, x, source));
      consider(group_with(target, taken, x, std::nullopt));
    }
    return best;
  }

  /// Whether `value` is computed from `on`, or will be by what has been grouped. Terms do not tell: they may cancel (a
  /// - a) in a program that still computes both.
  bool depends_on(Value value, Value on) const {
    llvm::DenseSet<Value> visited;
    SmallVector<Value> pending = {value};
    while (!pending.empty()) {
      Value next = pending.pop_back_val();
      if (next == on) return true;
      if (!visited.insert(next).second) continue;
      llvm::append_range(pending, next.getDefiningOp()->getOperands());
      if (auto it = borrowed_.find(next); it != borrowed_.end()) llvm::append_range(pending, it->second);
    }
    return false;
  }

  SmallVector<Value> factors_of(size_t target, ArrayRef<bool> taken) {
    SmallVector<Value> factors;
    for (auto [term, gone] : llvm::zip(roots_[target].whole, taken))
      for (Value factor : term.factors)
        if (!gone && !is_exponential(factor) && !llvm::is_contained(factors, factor)) factors.push_back(factor);
    return factors;
  }

  Group group_with(size_t target, ArrayRef<bool> taken, Value x, std::optional<size_t> source) {
    Group group{target, x, source, {}};
    for (size_t i = 0; i < roots_[target].form.size(); ++i) {
      Term quotient = roots_[target].whole[i];
      if (taken[i] || !quotient.remove(x)) continue;
      bool exponential = holds_exponential(roots_[target].form[i]);
      if (!source) {
        if (!exponential || !roots_[target].form[i].contains(x)) continue;
        group.pairs.push_back({i, 0, roots_[target].form[i].coefficient});
      } else {
        const LinearForm& terms = roots_[*source].whole;
        auto found = llvm::find_if(terms, [&](const Term& term) { return term.same_product(quotient); });
        if (found == terms.end()) continue;
        Group::Pair pair{i, size_t(found - terms.begin()), quotient.coefficient * found->coefficient.inverse()};
        if (!group.takes(pair)) continue;
        group.pairs.push_back(pair);
      }
      group.exponential |= exponential;
    }
    return group;
  }

  /// A value whose terms others share is built from those shares, not from shares of a third value.
  void drop_nested_groups() {
    std::set<size_t> sources;
    for (const Group& group : groups_)
      if (group.source) sources.insert(*group.source);
    std::erase_if(groups_, [&](const Group& group) { return sources.contains(group.target); });
  }

  // ---- building ----

  Value current(Value value) const {
    auto it = replaced_.find(value);
    return it == replaced_.end() ? value : it->second;
  }
  Term current(Term term) const {
    term.atom = current(term.atom);
    return term;
  }

  /// Where all users of the source's terms can see what is inserted.
  void insert_before_users(size_t source) {
    Operation* first = roots_[source].value.getDefiningOp();
    for (const Group& group : groups_)
      if (Operation* user = roots_[group.target].value.getDefiningOp();
          group.source == source && user->isBeforeInBlock(first))
        first = user;
    rewriter_.setInsertionPoint(first);
  }

  void put(Value old, Value value) {
    if (value.getType() != old.getType()) value = Builder(rewriter_, unnamed(old.getLoc())).broadcast_like(value, old);
    hand_over_name(old, value);
    old.replaceAllUsesWith(value);
    replaced_[old] = value;
  }

  /// Terms of the source that every group weighs alike become one value; the source is the sum of these values.
  void split_source(size_t source) {
    const LinearForm& form = roots_[source].form;
    SmallVector<SmallVector<std::optional<Scalar>>> weights(form.size());
    bool used = false;
    for (const Group& group : groups_) {
      if (group.source != source) continue;
      used = true;
      for (auto& weight : weights) weight.push_back(std::nullopt);
      for (const auto& pair : group.pairs) weights[pair.in_source].back() = group.weight(pair.in_source);
    }
    if (!used) return;
    SmallVector<SmallVector<size_t>> classes;
    for (size_t i = 0; i < form.size(); ++i) {
      auto same = llvm::find_if(classes, [&](auto& members) { return weights[members.front()] == weights[i]; });
      if (same == classes.end())
        classes.push_back({i});
      else
        same->push_back(i);
    }
    if (classes.size() == 1) {
      for (size_t i = 0; i < form.size(); ++i) shares_[{source, i}] = roots_[source].value;
      return;
    }
    build_classes(source, classes);
  }

  void build_classes(size_t source, ArrayRef<SmallVector<size_t>> classes) {
    Value old = roots_[source].value;
    SmallVector<Weighted> sum;
    for (const auto& members : classes) {
      SmallVector<Term> terms;
      for (size_t i : members) terms.push_back(current(roots_[source].form[i]));
      insert_before_users(source);
      Builder build(rewriter_, unnamed(old.getLoc()));
      SmallVector<Weighted> products;
      for (const Term& term : terms) products.push_back({Scalar(), build_term(build, term)});
      Value value = build_sum(build, products);
      for (size_t i : members) shares_[{source, i}] = value;
      sum.push_back({Scalar(), value});
    }
    rewriter_.setInsertionPoint(old.getDefiningOp());
    Builder build(rewriter_, unnamed(old.getLoc()));
    put(old, build_sum(build, sum));
  }

  /// x * (sum of weight * share)
  Weighted build_group(Builder& build, const Group& group) {
    SmallVector<Weighted> inner;
    for (const auto& pair : group.pairs) {
      Term term = roots_[group.target].form[pair.in_target];
      term.remove(group.x);
      Value share = group.source ? current(shares_.at({*group.source, pair.in_source})) : Value();
      bool seen = share && llvm::any_of(inner, [&](const Weighted& other) { return other.value == share; });
      if (seen) continue;
      if (!share) {
        term.coefficient = Scalar();
        share = build_term(build, current(term));
      }
      inner.push_back({group.source ? group.weight(pair.in_source) : pair.ratio, share});
    }
    SmallVector<Scalar> ratios;
    for (const Weighted& weighted : inner) ratios.push_back(weighted.coefficient);
    Scalar common = common_factor(ratios);
    for (Weighted& weighted : inner) weighted.coefficient = weighted.coefficient * common.inverse();
    return {common, build.mul(group.x, build_sum(build, inner))};
  }

  void rebuild_target(size_t target) {
    std::map<size_t, const Group*> at;  // by the group's first term
    std::map<size_t, bool> grouped, done;
    for (const Group& group : groups_) {
      if (group.target != target) continue;
      at[group.pairs.front().in_target] = &group;
      for (const auto& pair : group.pairs) grouped[pair.in_target] = true;
    }
    if (at.empty()) return;
    const Root& root = roots_[target];
    rewriter_.setInsertionPoint(root.value.getDefiningOp());
    Builder build(rewriter_, unnamed(root.value.getLoc()));
    SmallVector<Weighted> sum;
    for (size_t i = 0; i < root.form.size(); ++i) {
      if (auto group = at.find(i); group != at.end()) sum.push_back(build_group(build, *group->second));
      if (grouped.contains(i) || std::exchange(done[root.summand_of[i]], true)) continue;
      const Weighted& summand = root.summands[root.summand_of[i]];
      sum.push_back({summand.coefficient, current(summand.value)});
    }
    report_.fired("factored-decay", root.value.getLoc());
    put(root.value, build_sum(build, sum));
  }

  IRRewriter rewriter_;
  RewriteReport& report_;
  std::vector<Root> roots_;
  std::vector<Group> groups_;
  llvm::DenseMap<Value, SmallVector<Value>>
      borrowed_;  ///< by a target's value: the sources that its groups share terms of
  std::map<std::pair<size_t, size_t>, Value> shares_;  // by source root and term
  llvm::DenseMap<Value, Value> replaced_;
};

}  // namespace

void factored_decay(KernelOp kernel, RewriteReport& report) { FactoredDecay(kernel, report).run(); }

}  // namespace kdagen::kda
