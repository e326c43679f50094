// SPDX-License-Identifier: Apache-2.0
// What `kdagen check` prints: JSON for scripts, a table for people.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/judge/judge.h"

namespace kdagen {

/// One comparison of a whole pass.
struct CheckRun {
  std::string direction;  ///< fwd or bwd
  std::string regime;
  std::string grads;     ///< storage of the gradients: f32, bf16, fp16
  std::string operands;  ///< exact or rounded
  std::string pipeline;  ///< exact or bf16
  double do_scale = 1;
  std::string oracle;      ///< kernel or end_to_end
  std::string comparison;  ///< what against what, for people; not in the JSON
  std::vector<Verdict> outputs;
  std::string failure = {};  ///< why there are no outputs (a race, an access out of bounds, ...); not in the JSON

  bool ok() const;
};

struct CheckReport {
  std::string spec;
  std::string on;  ///< cpu, emulator or cuda
  std::vector<CheckRun> runs;

  /// No runs is no pass.
  bool pass() const;
};

/// {"spec","pass","on","runs":[{"direction","regime","grads","operands","pipeline","do_scale","oracle",
///  "outputs":[{"name","rel_l2","rel_bound","max_rel","max_bound","kappa","ok"}]}]}; NaN and infinity become null.
nlohmann::ordered_json to_json(const CheckReport& report);
/// One line an output, failures marked, a last line with the verdict. Ends with a newline.
std::string to_text(const CheckReport& report);

}  // namespace kdagen
