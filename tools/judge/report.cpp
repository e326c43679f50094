// SPDX-License-Identifier: Apache-2.0
#include "tools/judge/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kdagen {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json to_json(const Verdict& verdict) {
  return Json{{"name", verdict.name},
              {"rel_l2", number(verdict.rel_l2)},
              {"rel_bound", number(verdict.rel_bound)},
              {"max_rel", number(verdict.max_rel)},
              {"max_bound", number(verdict.max_bound)},
              {"kappa", verdict.kappa ? number(*verdict.kappa) : Json(nullptr)},
              {"ok", verdict.ok}};
}

std::string describe(const CheckRun& run) {
  std::string text = fmt::format("{} {}  grads={} operands={} pipeline={} do_scale={:g} oracle={}", run.direction,
                                 run.regime, run.grads, run.operands, run.pipeline, run.do_scale, run.oracle);
  return run.comparison.empty() ? text : text + "  (" + run.comparison + ")";
}

}  // namespace

bool CheckRun::ok() const {
  return failure.empty() && !outputs.empty() &&
         std::all_of(outputs.begin(), outputs.end(), [](const Verdict& v) { return v.ok; });
}

bool CheckReport::pass() const {
  return !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const CheckRun& run) { return run.ok(); });
}

Json to_json(const CheckReport& report) {
  Json runs = Json::array();
  for (const CheckRun& run : report.runs) {
    Json outputs = Json::array();
    for (const Verdict& verdict : run.outputs) outputs.push_back(to_json(verdict));
    runs.push_back({{"direction", run.direction},
                    {"regime", run.regime},
                    {"grads", run.grads},
                    {"operands", run.operands},
                    {"pipeline", run.pipeline},
                    {"do_scale", number(run.do_scale)},
                    {"oracle", run.oracle},
                    {"outputs", outputs}});
  }
  return Json{{"spec", report.spec}, {"pass", report.pass()}, {"on", report.on}, {"runs", runs}};
}

std::string to_text(const CheckReport& report) {
  std::string text;
  size_t failed = 0, judged = 0;
  for (const CheckRun& run : report.runs) {
    text += describe(run) + '\n';
    if (!run.failure.empty()) text += "  " + run.failure + '\n';
    text += fmt::format("  {:<12} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "output", "rel_l2", "bound", "max_rel", "bound",
                        "kappa");
    for (const Verdict& v : run.outputs) {
      text += fmt::format("  {:<12} {:>10.2e} {:>10.2e} {:>10.2e} {:>10.2e} {:>9} {}\n", v.name, v.rel_l2, v.rel_bound,
                          v.max_rel, v.max_bound, v.kappa ? fmt::format("{:.3g}", *v.kappa) : "-",
                          v.ok             ? "ok"
                          : v.note.empty() ? "FAIL"
                                           : "FAIL: " + v.note);
      ++judged;
      failed += !v.ok;
    }
  }
  text += report.pass() ? fmt::format("{} on {}: pass, {} outputs in {} runs\n", report.spec, report.on, judged,
                                      report.runs.size())
                        : fmt::format("{} on {}: FAIL, {} of {} outputs\n", report.spec, report.on, failed, judged);
  return text;
}

}  // namespace kdagen
