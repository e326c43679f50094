// SPDX-License-Identifier: Apache-2.0
// The sizes of the problem that a check is made on.
#include <algorithm>

#include "kdagen/error.h"
#include "tools/check/check.h"

namespace kdagen {

Shape default_check_shape() {
  Shape shape;
  shape.packed = true;
  shape.seqlens = {1, 37, 0, 130, 64, 63};
  shape.dead_rows = 5;
  shape.heads = 4;
  return shape;
}

Shape check_shape(std::optional<int64_t> tokens, const std::vector<int64_t>& seqlens, std::optional<int64_t> batch,
                  std::optional<int64_t> heads, std::optional<int64_t> unused_rows) {
  if (tokens && !seqlens.empty()) throw UsageError("--tokens and --seqlens exclude each other; pass one");
  Shape shape = default_check_shape();
  if (!seqlens.empty()) {
    shape.seqlens = seqlens;
    shape.dead_rows = 0;
    shape.batch = batch.value_or(1);
  } else if (tokens || batch) {
    shape.packed = false;
    shape.dead_rows = 0;
    shape.batch = batch.value_or(1);
    shape.seqlens = {tokens.value_or((300 + shape.batch - 1) / std::max<int64_t>(shape.batch, 1))};
  }
  if (unused_rows && !shape.packed)
    throw UsageError("--unused-rows: goes with packed sequences; pass --seqlens in place of --tokens and --batch");
  shape.heads = heads.value_or(shape.heads);
  shape.dead_rows = unused_rows.value_or(shape.dead_rows);
  shape.validate();
  return shape;
}

}  // namespace kdagen
