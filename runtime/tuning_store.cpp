// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning_store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "runtime/cache.h"
#include "runtime/files.h"
#include "runtime/key_lock.h"
#include "runtime/strict_json.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

using nlohmann::ordered_json;

constexpr int schema = 1, most_log2_tiles = 62;

/// Letters, digits and '-' of a device's name, and a hash of all of it.
std::string file_name(const std::string& device, const std::string& arch, const std::string& kernel) {
  std::string name;
  for (const char c : device) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}-{}-{}-{}.json", name.substr(0, 64), hash_text(device).substr(0, 8), arch, kernel);
}

TuningKey key_of(const JsonField& tuning) {
  const JsonField shape = tuning.at("shape");
  return {tuning.at("text_hash").string(),
          tuning.at("compiler").string(),
          {shape.at("packed").boolean(), static_cast<int>(shape.at("log2_tiles").integer(0, most_log2_tiles))}};
}

TuningEntry entry_of(const JsonField& field) {
  TuningEntry entry;
  entry.schedule = field.at("schedule").name();
  entry.rejected = field.at("rejected").string();
  for (const JsonField& ms : field.at("ms").items()) {
    if (!ms.value().is_number() || !(ms.value().get<double>() > 0)) ms.fail("expected a positive number");
    entry.ms.push_back(ms.value().get<double>());
  }
  if (entry.ms.empty() && entry.rejected.empty()) field.fail("neither timed nor rejected");
  return entry;
}

/// Throws what strict_json throws for anything that this version would not have written.
void validate(const nlohmann::json& content, const ordered_json& expected) {
  const JsonField root(content, "store");
  root.at("schema").integer(schema, schema);
  for (const char* field : {"device", "arch", "kernel"})
    if (root.at(field).string() != expected[field].get<std::string>())
      root.at(field).fail(
          fmt::format("of \"{}\", not of \"{}\"", root.at(field).string(), expected[field].get<std::string>()));
  for (const JsonField& tuning : root.at("tunings").items()) {
    key_of(tuning);
    for (const JsonField& entry : tuning.at("entries").items()) entry_of(entry);
  }
}

ordered_json& find_or_add(ordered_json& list, const std::function<bool(const ordered_json&)>& is_it,
                          const ordered_json& fresh) {
  const auto found = std::find_if(list.begin(), list.end(), is_it);
  if (found != list.end()) return *found;
  list.push_back(fresh);
  return list.back();
}

TuningKey key_of(const ordered_json& tuning) {
  const nlohmann::json plain = tuning;
  return key_of(JsonField(plain, "store"));
}

}  // namespace

ShapeClass shape_class(const Manifest& manifest, const Problem& problem) {
  const std::int64_t tiles = std::max<std::int64_t>(1, checked_multiply(tile_count(manifest, problem), problem.heads));
  return {problem.packed(), static_cast<int>(std::bit_width(static_cast<std::uint64_t>(tiles))) - 1};
}

double TuningEntry::median() const {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

TuningStore::TuningStore(std::filesystem::path cache_folder, std::string device, std::string arch, std::string kernel,
                         std::chrono::milliseconds patience)
    : file_(cache_folder / "tuning" / file_name(device, arch, kernel)),
      device_(std::move(device)),
      arch_(std::move(arch)),
      kernel_(std::move(kernel)),
      patience_(patience) {}

ordered_json TuningStore::empty() const {
  return {{"schema", schema},
          {"device", device_},
          {"arch", arch_},
          {"kernel", kernel_},
          {"tunings", ordered_json::array()}};
}

/// A file that is no store is moved aside if `locked`: without the lock it may be another one by then.
ordered_json TuningStore::read(bool locked) const {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file_, ignored))) return empty();
  std::string damage;
  if (const auto text = read_file(file_, damage, true)) {
    try {
      validate(parse_strict_json(*text, "store"), empty());
      return ordered_json::parse(*text);
    } catch (const UsageError& error) {
      damage = error.what();
    }
  }
  if (!locked) return empty();
  std::filesystem::path aside = file_;
  aside += ".damaged";
  std::filesystem::remove_all(aside, ignored);
  std::filesystem::rename(file_, aside, ignored);
  warn_once(
      fmt::format("the tuning store {} is not used: {}; it is kept as {}", file_.string(), damage, aside.string()));
  return empty();
}

ordered_json TuningStore::locked_read() const {
  if (!make_private_folder(file_.parent_path()).empty()) return empty();  // told when something is to be written
  std::filesystem::path lock_file = file_;
  const KeyLock lock(lock_file += ".lock", patience_);
  return read(lock.state() != KeyLock::State::busy);
}

std::vector<TuningEntry> TuningStore::entries(const TuningKey& key) const {
  std::vector<TuningEntry> entries;
  const nlohmann::json content = locked_read();
  for (const JsonField& tuning : JsonField(content, "store").at("tunings").items())
    if (key_of(tuning) == key)
      for (const JsonField& entry : tuning.at("entries").items()) entries.push_back(entry_of(entry));
  return entries;
}

std::optional<ShapeClass> TuningStore::nearest(const TuningKey& key) const {
  std::optional<ShapeClass> best;
  const auto distance = [&](const ShapeClass& shape) {
    return (shape.packed == key.shape.packed ? 0 : 1000) + std::abs(shape.log2_tiles - key.shape.log2_tiles);
  };
  const nlohmann::json content = locked_read();
  for (const JsonField& tuning : JsonField(content, "store").at("tunings").items()) {
    const TuningKey known = key_of(tuning);
    if (known.text_hash != key.text_hash || known.compiler != key.compiler) continue;
    if (!best || distance(known.shape) < distance(*best)) best = known.shape;
  }
  return best;
}

void TuningStore::add_timing(const TuningKey& key, const std::string& schedule, double ms) const {
  if (!(ms > 0) || !std::isfinite(ms)) return;
  change(key, schedule, [&](ordered_json& entry) { entry["ms"].push_back(ms); });
}

void TuningStore::reject(const TuningKey& key, const std::string& schedule, const std::string& reason) const {
  change(key, schedule, [&](ordered_json& entry) { entry["rejected"] = reason.empty() ? "unknown" : reason; });
}

void TuningStore::change(const TuningKey& key, const std::string& schedule,
                         const std::function<void(ordered_json& entry)>& edit) const {
  const auto give_up = [](const std::string& why) { warn_once(fmt::format("timings are not kept: {}", why)); };
  if (const std::string problem = make_private_folder(file_.parent_path()); !problem.empty()) return give_up(problem);
  std::filesystem::path lock_file = file_;
  const KeyLock lock(lock_file += ".lock", patience_);
  if (lock.state() == KeyLock::State::busy)
    return give_up(fmt::format("another process has held {} for {} s", lock_file.string(), patience_.count() / 1000));
  ordered_json content = read(true);
  ordered_json& tuning =
      find_or_add(content["tunings"], [&](const ordered_json& known) { return key_of(known) == key; },
                  {{"text_hash", key.text_hash},
                   {"compiler", key.compiler},
                   {"shape", {{"packed", key.shape.packed}, {"log2_tiles", key.shape.log2_tiles}}},
                   {"entries", ordered_json::array()}});
  edit(find_or_add(tuning["entries"], [&](const ordered_json& known) { return known["schedule"] == schedule; },
                   {{"schedule", schedule}, {"ms", ordered_json::array()}, {"rejected", ""}}));
  const std::string text = content.dump(1) + "\n";
  const std::string_view pieces[] = {text};
  const std::string failure = write_file_atomically(file_, pieces, false);
  if (!failure.empty()) give_up(failure);
}

}  // namespace kdagen::runtime
