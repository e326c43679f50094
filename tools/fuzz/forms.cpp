// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/forms.h"

#include <cctype>

namespace kdagen::fuzz {
namespace {

#define KD_FORM(weight, decay, ...)                                                                        \
  {#__VA_ARGS__, [](const ValueLetters& letters) { return in_letters(letters, KD_MEANING(__VA_ARGS__)); }, \
   [](const EstimateLetters& letters) { return in_letters(letters, KD_MEANING(__VA_ARGS__)); }, weight, decay}
#define KD_MEANING(...)                                                                                               \
  [](const auto& a, const auto& b, const auto& c, const auto& g, const auto& p, double k, long long n, const auto& t, \
     const auto& d, const auto& x, const auto& y) { return __VA_ARGS__; }

template <class V, class A, class K, class Meaning>
V in_letters(const Letters<V, A, K>& o, Meaning meaning) {
  return meaning(o.a, o.b, o.c, o.g, o.p, o.k, o.n, o.t, o.d, o.x, o.y);
}

// clang-format off: the expressions are printed as they stand
const Form table[] = {
    // products and sums
    KD_FORM(6, true, a * b),
    KD_FORM(4, true, a + b),
    KD_FORM(3, true, a - b),
    KD_FORM(2, true, a + k * b),
    KD_FORM(2, true, k * a),
    KD_FORM(1, false, a + k),
    KD_FORM(1, false, k - a),
    KD_FORM(1, true, -a),
    KD_FORM(1, false, a * a),
    KD_FORM(1, true, a * b - b * c),
    KD_FORM(1, false, a / (abs(b) + k)),
    KD_FORM(1, false, a / (b * b + k)),
    KD_FORM(1, false, a / b),
    KD_FORM(1, false, k / (1.0 + abs(a))),
    KD_FORM(1, false, b + 0.0 * a),
    KD_FORM(1, true, a * (0.0 * x)),
    // parameters
    KD_FORM(3, true, a * p),
    KD_FORM(2, true, a + p),
    KD_FORM(2, true, exp(tanh(p)) * (a + p)),
    KD_FORM(1, false, (b - p) * sigmoid(p)),
    KD_FORM(1, true, exp(tanh(p)) * (detach(a) + p)),
    // constants that stay symbolic, and cancel
    KD_FORM(1, true, x * a),
    KD_FORM(1, true, a * (x * log2e)),
    KD_FORM(1, true, a * ln2),
    KD_FORM(1, true, a * (y / x) * (x / y)),
    KD_FORM(1, true, (a * log2e) * ln2),
    KD_FORM(1, false, a / x * y),
    // functions of one value
    KD_FORM(1, false, exp(a)),
    KD_FORM(1, false, exp2(a)),
    KD_FORM(1, false, exp(tanh(a))),
    KD_FORM(1, false, log(abs(a) + k)),
    KD_FORM(1, false, log(a)),
    KD_FORM(1, false, log1p(a * a)),
    KD_FORM(1, false, sqrt(a * a + k)),
    KD_FORM(1, false, rsqrt(a * a + k)),
    KD_FORM(1, false, rsqrt(a)),
    KD_FORM(1, false, pow(abs(a) + k, 1.5)),
    KD_FORM(1, false, pow(a, 2.0)),
    KD_FORM(1, false, pow(sigmoid(a) + k, tanh(b))),
    KD_FORM(1, true, sigmoid(a)),
    KD_FORM(1, false, softplus(a)),
    KD_FORM(2, true, tanh(a)),
    KD_FORM(1, true, silu(a)),
    KD_FORM(1, false, logsigmoid(a)),
    KD_FORM(1, false, round(a, bf16)),
    KD_FORM(1, false, round(a, fp16) * b),
    // kinks and choices
    KD_FORM(1, false, relu(a)),
    KD_FORM(1, false, abs(a)),
    KD_FORM(1, false, clamp(a, -k, k)),
    KD_FORM(1, false, min(a, b)),
    KD_FORM(1, false, max(a, k * b)),
    KD_FORM(1, false, select(a < b, a, c)),
    KD_FORM(1, false, select(a <= k, b, c)),
    KD_FORM(1, false, select(equal(index(t), double(n)), a, b)),
    KD_FORM(1, false, select(index(d) > double(n), a, -b)),
    KD_FORM(1, false, select(isnan(a), b, a)),
    // no gradient
    KD_FORM(1, false, a * detach(b)),
    KD_FORM(1, false, b + (a - detach(a))),
    KD_FORM(1, true, b * exp2(a - detach(a))),
    KD_FORM(1, true, a * exp2(detach(last(g, t)) - g)),
    KD_FORM(1, true, a * exp2(detach(total(g, t)) - g) + b * exp2(g)),
    KD_FORM(1, true, a * exp2(g - detach(g))),
    KD_FORM(1, true, a * exp2(detach(g) - g)),
    KD_FORM(1, false, sum(x * detach(a) * b, d)),
    // along the row
    KD_FORM(2, true, sum(a * b, d)),
    KD_FORM(1, true, sum(a, d)),
    KD_FORM(1, false, max(a, d)),
    KD_FORM(1, false, mean(a * a, d)),
    KD_FORM(2, true, l2norm(a, d, 1e-3)),
    KD_FORM(1, true, a * rsqrt(sum(a * a, d) + k)),
    KD_FORM(1, false, rmsnorm(a, d)),
    KD_FORM(1, false, softmax(a, d)),
    KD_FORM(1, false, softmax(a, t)),
    KD_FORM(1, false, index(d) * a),
    // along the rows of a chunk
    KD_FORM(1, true, cumsum(a, t)),
    KD_FORM(1, true, cumsum(a, t, {.reverse = true})),
    KD_FORM(1, true, cumsum(a, t, {.exclusive = true})),
    KD_FORM(1, true, cumsum(a, t, {.exclusive = true, .reverse = true})),
    KD_FORM(1, true, total(a, t)),
    KD_FORM(1, true, last(a, t)),
    KD_FORM(1, false, total(a, t) - cumsum(a, t)),
    KD_FORM(1, false, sum(a * b, t)),
    KD_FORM(1, false, sum(a * b, {t, d})),
    KD_FORM(1, false, max(a, t)),
    KD_FORM(1, false, max(a, {t, d})),
    KD_FORM(1, false, a * rsqrt(sum(a * a, t) + k)),
    KD_FORM(1, false, shift(a, t, n)),
    KD_FORM(1, false, shift(a, t, -n, k)),
    KD_FORM(1, false, a - shift(a, t, 1)),
    KD_FORM(1, false, index(t) * a),
    // gates, their sums, decay products
    KD_FORM(3, true, cumsum(-0.25 * sigmoid(a), t)),
    KD_FORM(1, true, cumsum(-log2e * sigmoid(a + b), t)),
    KD_FORM(1, true, cumsum(-0.5 * sigmoid(a), t, {.exclusive = true})),
    KD_FORM(1, true, cumsum(-0.25 * sigmoid(a), t, {.exclusive = true, .reverse = true})),
    KD_FORM(1, true, cumsum(-x * sigmoid(a), t)),
    KD_FORM(2, true, cumsum(-5.0 * log2e * sigmoid(a), t)),
    KD_FORM(1, true, cumsum(-2.0 * sigmoid(a * b), t)),
    KD_FORM(1, true, cumsum(clamp(a, -3.0, 1.0), t, {.exclusive = true})),
    KD_FORM(1, true, k * g),
    KD_FORM(1, true, cumsum(clamp(a, -0.25, 0.25), t)),
    KD_FORM(4, true, a * exp2(g)),
    KD_FORM(3, true, a * exp2(-g)),
    KD_FORM(2, true, a * exp(g)),
    KD_FORM(1, true, a * exp(-g)),
    KD_FORM(2, true, a * exp2(last(g, t) - g)),
    KD_FORM(1, true, a * exp2(g) * exp2(last(g, t))),
    KD_FORM(1, true, exp2(last(g, t))),
    KD_FORM(1, true, a * b * exp2(g)),
    KD_FORM(1, true, a * g),
    KD_FORM(1, true, b - a * exp2(g)),
};
// clang-format on

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Letters that stand alone; `.reverse` and `exp2` hold none, and neither does a number.
template <class Visit>
void for_each_letter(std::string_view text, Visit visit) {
  for (size_t i = 0; i < text.size(); ++i) {
    const bool alone =
        (i == 0 || (!is_word(text[i - 1]) && text[i - 1] != '.')) && (i + 1 == text.size() || !is_word(text[i + 1]));
    if (alone && std::isalpha(static_cast<unsigned char>(text[i]))) visit(i, text[i]);
  }
}

}  // namespace

bool Form::uses(char letter) const {
  bool found = false;
  for_each_letter(text, [&](size_t, char c) { found |= c == letter; });
  return found;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all(std::begin(table), std::end(table));
  return all;
}

const std::vector<int>& weighted_forms(bool decays) {
  auto expand = [](bool decays) {
    std::vector<int> result;
    for (size_t i = 0; i < forms().size(); ++i)
      if (!decays || forms()[i].decay) result.insert(result.end(), forms()[i].weight, int(i));
    return result;
  };
  static const std::vector<int> any = expand(false), decay = expand(true);
  return decays ? decay : any;
}

std::string written(const Form& form, const std::function<std::string(char)>& replacement) {
  std::string result;
  size_t done = 0;
  for_each_letter(form.text, [&](size_t at, char letter) {
    result.append(form.text, done, at - done);
    result += replacement(letter);
    done = at + 1;
  });
  return result.append(form.text, done);
}

}  // namespace kdagen::fuzz
