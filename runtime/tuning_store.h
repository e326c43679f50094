// SPDX-License-Identifier: Apache-2.0
// Timings of a kernel's schedules on disk: one JSON file a device model and kernel, in the cache's folder. Every timing
// is kept. What is read is advice: whoever uses a schedule from here compares its results with the default's first.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/problem.h"

namespace kdagen::runtime {

/// Problems for which the same schedule is expected to be the best: tiles of all heads, to a power of two.
struct ShapeClass {
  bool packed = false;
  int log2_tiles = 0;
  bool operator==(const ShapeClass&) const = default;
};
ShapeClass shape_class(const Manifest& manifest, const Problem& problem);

/// What was tuned: the text of the default schedule stands for spec, options, architecture and version of the emitter.
struct TuningKey {
  std::string text_hash, compiler;
  ShapeClass shape;
  bool operator==(const TuningKey&) const = default;
};

struct TuningEntry {
  std::string schedule;
  std::vector<double> ms;  ///< in the order of measurement
  std::string rejected;    ///< why it is not to be used; empty if it may be

  double median() const;  ///< of `ms`, which must not be empty
};

/// Safe to use from several processes at once: every change is made under a lock to what the file holds then, and the
/// file is replaced whole. If another process keeps the lock longer than `patience`, the change is given up with a
/// warning; on a file system without locks two writers may lose each other's changes. A file that cannot be understood,
/// or belongs to another device or kernel, is moved aside to <file>.damaged with one warning; a folder that cannot be
/// written costs one warning and the timings.
class TuningStore {
 public:
  TuningStore(std::filesystem::path cache_folder, std::string device, std::string arch, std::string kernel,
              std::chrono::milliseconds patience = std::chrono::seconds(60));

  const std::filesystem::path& file() const { return file_; }
  /// Of exactly this key; in the order in which they were first added.
  std::vector<TuningEntry> entries(const TuningKey& key) const;
  /// The key's text and compiler under the nearest shape class: packed like `key` if there is one, then by size.
  std::optional<ShapeClass> nearest(const TuningKey& key) const;
  void add_timing(const TuningKey& key, const std::string& schedule, double ms) const;
  void reject(const TuningKey& key, const std::string& schedule, const std::string& reason) const;

 private:
  nlohmann::ordered_json empty() const;
  nlohmann::ordered_json read(bool locked) const;
  nlohmann::ordered_json locked_read() const;
  void change(const TuningKey& key, const std::string& schedule,
              const std::function<void(nlohmann::ordered_json& entry)>& edit) const;

  std::filesystem::path file_;
  std::string device_, arch_, kernel_;
  std::chrono::milliseconds patience_;
};

}  // namespace kdagen::runtime
