// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/hand_over.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/check/problem.h"
#include "tools/spec_source.h"

namespace kdagen::cli {
namespace {

struct Form {
  std::string options;
  std::map<std::string, double> bytes;  ///< of each cotangent, row exponent and tensor of anchors, an element of a row
  std::vector<std::string> guarantees;
};

/// "3e-06 (typical, init), no guarantee (strong)": regimes with the same bound together, or just the bound.
std::string by_regime(const std::vector<std::pair<std::string, std::vector<std::string>>>& groups) {
  if (groups.size() == 1) return groups[0].first;
  std::vector<std::string> parts;
  for (const auto& [bound, regimes] : groups) parts.push_back(fmt::format("{} ({})", bound, fmt::join(regimes, ", ")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> guarantees_of(const Problem& problem, const Workload& workload,
                                       const CompileOptions& options) {
  ConsumerOptions consumer;
  consumer.storage = cotangent_storage(problem, options);
  std::vector<std::string> result;
  for (const Declaration& input : problem.inputs) {
    std::vector<std::pair<std::string, std::vector<std::string>>> groups;
    bool any = false;
    for (const std::string& regime : workload.regimes()) {
      const auto bound = workload.bound(problem, regime, "d" + input.name, Oracle::end_to_end, consumer);
      const bool given = bound && bound->rel_l2;
      any |= given;
      const std::string text = given ? fmt::format("{:.2g}", *bound->rel_l2) : "no guarantee";
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) { return known.first == text; });
      if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
      group->second.push_back(regime);
    }
    if (any) result.push_back(fmt::format("d{} {}", input.name, by_regime(groups)));
  }
  return result;
}

double bytes_of(const std::string& dtype) { return dtype == "f32" || dtype == "i32" ? 4 : dtype == "i8" ? 1 : 2; }

Form form_of(const SpecArguments& arguments, const std::map<std::string, std::string>& settings,
             const Workload& workload) {
  std::map<std::string, std::string> values = arguments.values();
  std::erase_if(values, [](const auto& value) { return value.first.starts_with("upstream"); });
  Form form;
  for (const auto& [key, value] : settings) {
    values[key] = value;
    form.options += (form.options.empty() ? "" : " ") + key + "=" + value;
  }
  const CompileOptions options = take_compile_options(values);
  const std::string graph = graph_bytes(arguments.spec, values);
  Compilation forward(graph, Direction::fwd, options), backward(graph, Direction::bwd, options);
  Shape one_chunk;
  one_chunk.heads = 1;
  Problem problem = problem_of(graph, forward.kernel(Stage::kda), one_chunk);
  problem.shape.seqlens = {problem.shape.chunk};
  const double elements = static_cast<double>(problem.shape.chunk * problem.shape.dim);
  for (const evaluator::TensorInfo& info :
       evaluator::tensors_of(backward.kernel(Stage::derived), instance_of(problem.shape)))
    if (info.role == "cotangent")
      form.bytes[info.name] = static_cast<double>(element_count(info.shape)) * bytes_of(info.dtype) / elements;
  for (const evaluator::TensorInfo& info :
       evaluator::tensors_of(forward.kernel(Stage::kda), instance_of(problem.shape)))
    if (info.every > 0)
      form.bytes[info.name] = static_cast<double>(element_count(info.shape)) * bytes_of(info.dtype) / elements;
  form.guarantees = guarantees_of(problem, workload, options);
  return form;
}

}  // namespace

std::string hand_over_table(const SpecArguments& arguments) {
  Compilation forward = arguments.compile(Direction::fwd);
  CompileOptions options;
  const Problem asked = problem_of(arguments.graph(options), forward.kernel(Stage::kda), Shape());
  const Workload& workload = find_workload(asked.spec);
  std::vector<Form> forms;
  for (const auto& settings : workload.hand_over_forms(asked)) forms.push_back(form_of(arguments, settings, workload));
  std::string text;
  for (const Form& form : forms) {
    double bytes = 0;
    for (const auto& [name, size] : form.bytes)
      if (!std::all_of(forms.begin(), forms.end(), [&](const Form& other) {
            auto found = other.bytes.find(name);
            return found != other.bytes.end() && found->second == size;
          }))
        bytes += size;
    text += fmt::format("  {}\n    {:.2f} bytes an element; {}\n", form.options, bytes,
                        form.guarantees.empty() ? "errors not measured for these sizes"
                                                : fmt::format("errors at most: {}", fmt::join(form.guarantees, "; ")));
  }
  return text;
}

}  // namespace kdagen::cli
