// SPDX-License-Identifier: Apache-2.0
#include "tools/fuzz/recipe.h"

namespace kdagen::fuzz {
namespace {

rc::Gen<int> numbers() { return rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, gene_values)); }

rc::Gen<Gene> genes() { return rc::gen::construct<Gene>(numbers(), numbers(), numbers(), numbers(), numbers()); }

template <class T>
rc::Gen<std::vector<T>> at_most(int length, rc::Gen<T> element) {
  return rc::gen::resize(length, rc::gen::container<std::vector<T>>(std::move(element)));
}

}  // namespace

rc::Gen<Recipe> recipes(int steps) {
  return rc::gen::construct<Recipe>(rc::gen::container<std::vector<int>>(48, numbers()), at_most(8, genes()),
                                    at_most(steps, genes()), at_most(7, genes()));
}

rc::Shrinkable<Recipe> recipe_of(uint64_t seed, int steps) {
  return recipes(steps)(rc::Random(seed), rc::kNominalSize);
}

}  // namespace kdagen::fuzz
