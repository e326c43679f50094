// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codegen/explain/formulas.h"
#include "codegen/rewrite/fixed_point_scan.h"
#include "tools/cli/command.h"

namespace kdagen::cli {
namespace {

struct Arguments {
  SpecArguments spec;
  std::optional<double> do_scale;
  bool ftz = false, json = false;
};

nlohmann::ordered_json as_json(const RangeEntry& entry) {
  auto number = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(nullptr); };
  return {{"name", entry.name},           {"line", entry.line}, {"lo", number(entry.range.lo)},
          {"hi", number(entry.range.hi)}, {"unit", entry.unit}, {"verdict", entry.verdict},
          {"advice", entry.advice}};
}

/// Says of named sums over rows that they are made in fixed point.
void note_fixed_point(std::vector<RangeEntry>& report, kda::KernelOp rewritten) {
  for (const kda::RowSum& sum : kda::sums_over_rows(rewritten))
    for (RangeEntry& entry : report)
      if (sum.fraction_bits >= 0 && entry.name == formula(sum.value))
        entry.advice +=
            fmt::format("{}fixed point, {} fraction bits", entry.advice.empty() ? "" : "; ", sum.fraction_bits);
}

int run(const Arguments& arguments) {
  bool ok = true;
  nlohmann::ordered_json values = nlohmann::ordered_json::array();
  std::string text;
  ProofOptions proof;
  proof.do_scale = arguments.do_scale;
  proof.ftz = arguments.ftz;
  for (Direction direction : {Direction::fwd, Direction::bwd}) {
    Compilation compilation = arguments.spec.compile(direction);
    auto report = range_report(compilation.kernel(Stage::derived), proof);
    note_fixed_point(report, compilation.kernel(Stage::rewritten));
    text += fmt::format("{}\n{}", direction == Direction::fwd ? "forward" : "backward", range_text(report));
    for (const RangeEntry& entry : report) {
      ok = ok && entry.verdict != "refused";
      values.push_back(as_json(entry));
    }
  }
  if (arguments.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"spec", arguments.spec.spec}, {"ok", ok}, {"values", values}}.dump(2));
  else
    fmt::print("{}", text);
  return ok ? 0 : 1;
}
}  // namespace

void add_ranges(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = add_command(app, "ranges", "where every exponent lies, and whether it is proven", chosen,
                                  [arguments] { return run(*arguments); });
  arguments->spec.add_to(*command, false, "both", true);
  command->add_option("--do-scale", arguments->do_scale, "size of the gradients that arrive, for the headroom rule")
      ->check(CLI::PositiveNumber);
  command->add_flag("--ftz", arguments->ftz, "subnormal numbers are flushed");
  command->add_flag("--json", arguments->json, "as JSON");
}

}  // namespace kdagen::cli
