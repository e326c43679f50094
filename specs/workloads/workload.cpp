// SPDX-License-Identifier: Apache-2.0
#include "specs/workloads/workload.h"

#include <charconv>

#include <kdagen/error.h>

#include "specs/workloads/registry.h"

namespace kdagen {

std::string Settings::text(const std::string& name, const std::string& fallback) const {
  auto found = values.find(name);
  return found == values.end() ? fallback : found->second;
}

double Settings::number(const std::string& name, double fallback) const {
  auto found = values.find(name);
  if (found == values.end()) return fallback;
  const std::string& text = found->second;
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError("option " + name + "=" + text + ": not a number");
  return value;
}

Tensors Workload::end_to_end(const Problem& problem, const Tensors&, const ConsumerOptions&) const {
  throw UsageError("spec " + problem.spec +
                   " declares no consumer, so there is no end-to-end gradient to compare with");
}

const Workload& find_workload(const std::string& spec) {
  static const std::map<std::string, const Workload& (*)()> registry = registered_workloads();
  auto found = registry.find(spec);
  return found == registry.end() ? generic_workload() : found->second();
}

}  // namespace kdagen
