// SPDX-License-Identifier: Apache-2.0
#include "codegen/rewrite/rewrite.h"

#include "codegen/derive/derive.h"
#include "codegen/diagnostics.h"
#include "codegen/rewrite/complement_scan.h"
#include "codegen/rewrite/deferred_constant.h"
#include "codegen/rewrite/difference_of_sums.h"
#include "codegen/rewrite/factored_decay.h"
#include "codegen/rewrite/finite_exponential.h"
#include "codegen/rewrite/fixed_point_scan.h"
#include "codegen/rewrite/identities.h"
#include "codegen/rewrite/inverse_norm.h"
#include "codegen/rewrite/parameter_hoisting.h"
#include "codegen/rewrite/projection.h"
#include "codegen/rewrite/rounded_operand.h"
#include "codegen/rewrite/shared_exponential.h"
#include "codegen/rewrite/stable_sigmoid.h"
#include "codegen/rewrite/values.h"

using namespace mlir;

namespace kdagen::kda {

bool RewriteOptions::saves(Value value) const {
  auto name = user_name(value);
  return name && llvm::is_contained(saved, *name);
}

int RewriteReport::firings(const std::string& name) const {
  for (const Entry& entry : entries)
    if (entry.name == name) return entry.firings;
  return 0;
}

void RewriteReport::fired(const std::string& name, Location location) {
  auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == name; });
  if (entry == entries.end()) entry = entries.insert(entries.end(), Entry{name, 0, {}});
  ++entry->firings;
  std::string line = spec_line(location);
  if (!line.empty() && !llvm::is_contained(entry->spec_lines, line)) entry->spec_lines.push_back(line);
}

namespace {
/// The first three compare with the forward as it was before any rewriting; the fourth looks for sums as the spec wrote
/// them.
bool reads_the_forward(llvm::StringRef step) {
  return step == "difference-of-sums" || step == "fixed-point-scan" || step == "rounded-operand" ||
         step == "shared-exponential";
}

void tidy(KernelOp kernel, RewriteReport& report) {
  identities(kernel, report);
  clean_up(kernel);
}
}  // namespace

RewriteReport rewrite(ModuleOp module, const RewriteOptions& options) {
  RewriteReport report;
  using Step = std::function<void(KernelOp)>;
  auto with = [&](auto rewrite) { return Step([=, &report](KernelOp kernel) { rewrite(kernel, report); }); };
  auto with_options = [&](auto rewrite) {
    return Step([=, &options, &report](KernelOp kernel) { rewrite(kernel, options, report); });
  };
  const std::pair<const char*, Step> steps[] = {
      {"fixed-point-scan", with_options(choose_fixed_point_scans)},
      {"rounded-operand", with_options(rounded_operand)},
      {"shared-exponential", with_options(shared_exponential)},
      {"difference-of-sums", with_options(difference_of_sums)},
      {"identities", with(identities)},
      {"stable-sigmoid", with(stable_sigmoid)},
      {"projection", with(projection)},
      {"complement-scan", with(complement_scan)},
      {"factored-decay", with(factored_decay)},
      {"deferred-constant", with(deferred_constant)},
      {"parameter-hoisting", with(parameter_hoisting)},
      {"inverse-norm", with_options(inverse_norm)},
      {"finite-exponential", with(finite_exponential)},
  };
  for (const auto& [name, step] : steps) {
    report.entries.push_back({name, 0, {}});
    if (std::string(name) == "complement-scan") report.entries.push_back({"suffix-sum", 0, {}});
  }
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    for (const auto& [name, step] : steps) {
      step(kernel);
      put_after_operands(kernel);
      clean_up(kernel);
      if (!reads_the_forward(name)) tidy(kernel, report);
      verify_after(kernel, name);
    }
    lower_fixed_point_scans(kernel, options);
    clean_up(kernel);
  }
  return report;
}

}  // namespace kdagen::kda
