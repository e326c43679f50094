// SPDX-License-Identifier: Apache-2.0
// Texts of one pass under several schedules, each in memory of its own kind: they must write the same bits.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/pipeline.h"
#include "tools/check/subject.h"

namespace kdagen::fuzz {

/// Of `wishes` (KEY=VALUE, or baseline alone) those that the scheduler takes together, in order; default if none.
std::string fitting_schedule(Compilation& compilation, const std::string& arch, const std::vector<std::string>& wishes);

/// Its parts, each KEY=VALUE or a word.
std::set<std::string> keys_of(const std::string& schedule);

class Schedules : public Subject {
 public:
  /// `repeats`: the first run is followed by one of inputs that hold the same along some dimensions, which a text with
  /// strides of its own reads with a stride of 0.
  explicit Schedules(bool repeats) : repeats_(repeats) {}

  void add(std::string schedule, std::unique_ptr<Subject> subject) {
    subjects_.emplace_back(std::move(schedule), std::move(subject));
  }
  /// CheckError when two of them differ.
  Tensors run(const Tensors& inputs, const Shape& shape) override;

 private:
  Tensors agreed(const Tensors& inputs, const Shape& shape, const char* of);

  std::vector<std::pair<std::string, std::unique_ptr<Subject>>> subjects_;
  bool repeats_;
};

}  // namespace kdagen::fuzz
