// SPDX-License-Identifier: Apache-2.0
// A device as the tuner's workbench.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/tune/same_bits.h"
#include "tools/tune/search.h"

namespace kdagen::tune {

/// Compiles and loads; rejected when the compiler refuses the text or spills more than `spills_allowed` bytes.
Built build(const emit::Emitted& emitted, const std::string& arch, int spills_allowed);
/// Bytes that the compiler's report says are stored and loaded for lack of registers, over all entries.
int spilled_bytes(const runtime::CompiledText& compiled);

/// Where its timings are.
runtime::TuningStore store_of(const runtime::DeviceInfo& device, const runtime::Manifest& manifest);
/// What timings are stored for; `plain`: the default schedule's text. Errors of device_info.
runtime::TuningKey tuning_key(const emit::Emitted& plain, const std::string& compiler, int ordinal,
                              const runtime::Problem& problem, const std::vector<int64_t>& lengths);

class DeviceBench : public Workbench {
 public:
  /// Compiles the default schedule and computes what the others have to equal. UsageError for sizes that do not pass,
  /// ToolchainError without a device, compiler, or enough memory.
  /// `patience`: beside ten times what the default takes.
  DeviceBench(Compilation& compilation, std::string arch, const BenchSizes& sizes, int ordinal,
              Clock::duration patience = std::chrono::seconds(10));

  std::function<Built()> prepare(const std::string& schedule) override;
  std::string difference(const Built& built, bool whole_problem) override;
  /// Median of a number of calls on inputs that take turns, so that together they do not fit into the L2 cache.
  double milliseconds(const Built& built) override;
  Clock::duration closing_time() const override { return closing_time_; }
  Clock::duration patience() const override { return patience_; }

  runtime::TuningKey key() const { return key_; }
  /// With the hash of the text that the schedule gives now.
  runtime::TunedText tuned_text(const std::string& schedule);
  /// Those whose text is the one that was timed or rejected.
  std::vector<runtime::TuningEntry> still_true(std::vector<runtime::TuningEntry> entries);

 private:
  Compilation& compilation_;
  std::string arch_;
  BenchSizes sizes_;
  int ordinal_, spills_allowed_ = 0;
  runtime::TuningKey key_;
  std::vector<std::unique_ptr<DeviceCall>> calls_;
  size_t turn_ = 0;  // of calls_
  std::unique_ptr<SmallReferences> small_;
  std::unique_ptr<Reference> whole_;
  std::map<std::string, std::string> hashes_;  // by schedule
  Clock::duration closing_time_{}, patience_;
};

}  // namespace kdagen::tune
