// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/shadow.h"

#include <algorithm>
#include <bit>
#include <new>

namespace kdagen::emulator {

void Shadow::split_for(std::size_t offset_or_size) {
  const unsigned old_shift = shift_;
  shift_ = std::min<unsigned>(shift_, std::countr_zero(offset_or_size));
  const std::size_t count = (bytes_ >> shift_) + 1;
  std::unique_ptr<Cell[], Free> cells(static_cast<Cell*>(std::calloc(count, sizeof(Cell))));
  if (!cells) throw std::bad_alloc();
  if (cells_) {
    const unsigned parts_shift = old_shift - shift_;
    for (std::size_t i = 0; i < count; ++i) {
      const Cell& whole = cells_[i >> parts_shift];
      if (whole.write.epoch || whole.read.epoch) cells[i] = whole;
    }
  }
  cells_ = std::move(cells);
}

}  // namespace kdagen::emulator
