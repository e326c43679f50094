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

#include "runtime/device.h"
#include "runtime/key_lock.h"
#include "runtime/problem.h"

namespace kdagen::runtime {

/// The sizes of a problem. Times are compared between equal ones only; the choice for one of about as many tiles is
/// likely to be a good one.
struct TuningShape {
  bool packed = false;
  std::int64_t batch = 1, tokens = 0, heads = 1, sequences = 1;
  std::int64_t tiles = 1;    ///< of all heads
  std::string lengths = {};  ///< a hash of packed sequences' lengths; empty for others, and where they are not known
  bool operator==(const TuningShape&) const = default;
};
TuningShape tuning_shape(const Manifest& manifest, const Problem& problem, const std::vector<std::int64_t>& lengths);

/// What was tuned, and where: timings and rejections hold for nothing else.
struct TuningKey {
  std::string text_hash;  ///< of the default schedule's text, which stands for spec and options, and of the headers
  std::string compiler;
  std::string machine;  ///< machine_text of the device
  TuningShape shape;
  bool operator==(const TuningKey&) const = default;
};

/// "132 multiprocessors, 233472 bytes of shared memory each, 232448 a block, driver 13.0": what a slice of a device, or
/// another driver, may change while the device's name stays.
std::string machine_text(const DeviceInfo& device, int driver_version);

/// A schedule and the hash of the text that it gave; empty if it was refused before there was one.
struct TunedText {
  std::string schedule, text_hash;
  bool operator==(const TunedText&) const = default;
};

struct TuningEntry {
  TunedText text;
  std::vector<double> ms;  ///< in the order of measurement
  std::string rejected;    ///< why it is not to be used; empty if it may be
};

/// Safe to use from several processes at once: every change is made under a lock to what the file holds then, and the
/// file is replaced whole. If another process keeps the lock longer than `patience`, the change is given up with a
/// warning, and from then on nothing waits for the lock; on a file system without locks two writers may lose each
/// other's changes. A file that cannot be understood,
/// or belongs to another device or kernel, is moved aside to <file>.damaged with one warning; a folder that cannot be
/// written costs one warning and the timings.
class TuningStore {
 public:
  TuningStore(const std::filesystem::path& cache_folder, std::string device, std::string arch, std::string kernel,
              std::chrono::milliseconds patience = std::chrono::seconds(5));

  const std::filesystem::path& file() const { return file_; }
  /// Of exactly this key, in the order in which they were first added; then what was rejected for other shapes, which
  /// is rejected for all.
  std::vector<TuningEntry> entries(const TuningKey& key) const;
  /// What searches of this text ended with, for this shape and then for the others by likeness: packed as `key`, then
  /// by the number of tiles. Without what has been rejected since.
  std::vector<TunedText> choices(const TuningKey& key) const;
  void add_timing(const TuningKey& key, const TunedText& text, double ms) const;
  void reject(const TuningKey& key, const TunedText& text, const std::string& reason) const;
  void choose(const TuningKey& key, const TunedText& text) const;

 private:
  nlohmann::ordered_json empty() const;
  nlohmann::ordered_json read(bool locked) const;
  nlohmann::ordered_json locked_read() const;
  void change(const TuningKey& key, const std::function<void(nlohmann::ordered_json& tuning)>& edit) const;
  bool is_busy(const KeyLock& lock) const;

  std::filesystem::path file_;
  std::string device_, arch_, kernel_;
  mutable std::chrono::milliseconds patience_;
};

}  // namespace kdagen::runtime
