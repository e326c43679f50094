// SPDX-License-Identifier: Apache-2.0
// Compiled objects on disk, found by everything they depend on. An entry is two files: <digest>.bin and <digest>.json,
// the latter with the full key and the content's hash. Nothing is used that does not match both.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/cache_directory.h"
#include "runtime/embedded.h"

namespace kdagen::runtime {

inline constexpr int cache_schema = 1;

/// All that an object depends on. `kernel`, `arch` and `compiler` are parts as well; they are kept for the listing.
struct CacheKey {
  std::string kernel, arch, compiler;
  std::vector<std::pair<std::string, std::string>> parts;

  /// One line of JSON with every part in order; a value longer than 200 bytes appears as its length and 128-bit hash.
  std::string full() const;
  /// 32 hex digits of `full`.
  std::string digest() const;
};

struct CachedObject {
  std::string bytes;
  nlohmann::json info = nlohmann::json::object();  ///< kept beside the bytes
  std::filesystem::path file;                      ///< of the bytes; empty when they are not on disk
  bool built = false;                              ///< not found, so `build` ran
};

struct CacheEntry {
  std::string digest, kernel, arch, compiler;
  std::int64_t bytes = 0;
  double age_seconds = 0;
};

/// 32 hex digits, XXH3.
std::string hash_text(std::string_view bytes);

/// Safe to use from several threads and processes at once.
class Cache {
 public:
  explicit Cache(CacheDirectory directory, std::chrono::milliseconds patience = std::chrono::minutes(2))
      : directory_(std::move(directory)), patience_(patience) {}
  /// The process's own, by choose_cache_directory on first use.
  static Cache& shared();

  const CacheDirectory& directory() const { return directory_; }

  /// The object of `key`. If there is none, `build` makes it, under a lock, so that of many processes that ask at once
  /// one builds and the others wait (as long as `patience`, then they build for themselves and write nothing). A
  /// damaged or foreign entry is reported by one warning and replaced; a folder that cannot be written by one warning
  /// and no entry. Errors of `build` pass through and leave nothing.
  CachedObject get(const CacheKey& key, const std::function<CachedObject()>& build);

  std::vector<CacheEntry> list() const;  ///< newest first
  /// Removes every entry and unpacked header; returns the bytes freed. Other files in the folder stay.
  std::int64_t clear();
  /// Where the cache is and why, how much it holds, and what goes into a key.
  std::string explain() const;

  /// A private folder for a compiler, inside the cache if possible. ToolchainError when no place can be written.
  TemporaryDirectory scratch() const;
  /// The folder to name in -I so that `files` are found; unpacked on first use and checked on each. ToolchainError when
  /// no place can be written.
  std::filesystem::path unpack(std::span<const EmbeddedFile> files);

 private:
  std::filesystem::path objects() const { return directory_.path / "objects"; }
  bool read(const CacheKey& key, CachedObject& object, std::string& damage) const;
  std::string write(const CacheKey& key, CachedObject& object);

  CacheDirectory directory_;
  std::chrono::milliseconds patience_;
  std::mutex mutex_;
  TemporaryDirectory fallback_;  // for headers, when the cache takes none
};

}  // namespace kdagen::runtime
