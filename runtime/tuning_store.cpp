// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning_store.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cache.h"
#include "runtime/files.h"
#include "runtime/key_lock.h"
#include "runtime/strict_json.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

using nlohmann::ordered_json;

constexpr int schema = 2;

/// Letters, digits and '-' of a device's name, and a hash of all of it.
std::string file_name(const std::string& device, const std::string& arch, const std::string& kernel) {
  std::string name;
  for (const char c : device) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}-{}-{}-{}.json", name.substr(0, 64), hash_text(device).substr(0, 8), arch, kernel);
}

TuningShape shape_of(const JsonField& field) {
  const auto size = [&](const char* name, std::int64_t least) { return field.at(name).integer(least); };
  return {field.at("packed").boolean(), size("batch", 1), size("tokens", 0),           size("heads", 1),
          size("sequences", 0),         size("tiles", 1), field.at("lengths").string()};
}

ordered_json to_json(const TuningShape& shape) {
  return {{"packed", shape.packed},       {"batch", shape.batch}, {"tokens", shape.tokens},  {"heads", shape.heads},
          {"sequences", shape.sequences}, {"tiles", shape.tiles}, {"lengths", shape.lengths}};
}

TuningKey key_of(const JsonField& tuning) {
  return {tuning.at("text_hash").string(), tuning.at("compiler").string(), tuning.at("machine").string(),
          shape_of(tuning.at("shape"))};
}

TunedText text_of(const JsonField& field) { return {field.at("schedule").name(), field.at("text_hash").string()}; }

std::optional<TunedText> choice_of(const JsonField& tuning) {
  const JsonField choice = tuning.at("choice");
  if (choice.value().is_null()) return {};
  return text_of(choice);
}

TuningEntry entry_of(const JsonField& field) {
  TuningEntry entry;
  entry.text = text_of(field);
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
    choice_of(tuning);
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

bool same_but_for_shape(TuningKey a, const TuningKey& b) {
  a.shape = b.shape;
  return a == b;
}

/// A choice of one kind of problem says little about the other; else by the ratio of the numbers of tiles.
double unlikeness(const TuningShape& a, const TuningShape& b) {
  if (a == b) return -1;
  const double ratio = static_cast<double>(a.tiles) / static_cast<double>(b.tiles);
  return (a.packed == b.packed ? 0 : 1000) + std::abs(std::log2(ratio));
}

ordered_json& entry_in(ordered_json& tuning, const TunedText& text) {
  return find_or_add(
      tuning["entries"],
      [&](const ordered_json& known) {
        return known["schedule"] == text.schedule && known["text_hash"] == text.text_hash;
      },
      {{"schedule", text.schedule}, {"text_hash", text.text_hash}, {"ms", ordered_json::array()}, {"rejected", ""}});
}

}  // namespace

TuningShape tuning_shape(const Manifest& manifest, const Problem& problem, const std::vector<std::int64_t>& lengths) {
  const std::int64_t tiles = checked_multiply(tile_count(manifest, problem), problem.heads);
  TuningShape shape{problem.packed(),
                    problem.batch,
                    problem.tokens,
                    problem.heads,
                    problem.sequences,
                    std::max<std::int64_t>(1, tiles),
                    ""};
  if (!lengths.empty()) shape.lengths = hash_text(fmt::format("{}", fmt::join(lengths, ",")));
  return shape;
}

std::string machine_text(const DeviceInfo& device, int driver_version) {
  return fmt::format("{} multiprocessors, {} bytes of shared memory each, {} a block, driver {}.{}",
                     device.multiprocessors, device.shared_bytes_per_multiprocessor, device.shared_bytes_per_block,
                     driver_version / 1000, driver_version % 1000 / 10);
}

TuningStore::TuningStore(const std::filesystem::path& cache_folder, std::string device, std::string arch,
                         std::string kernel, std::chrono::milliseconds patience)
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
  return read(!is_busy(lock));
}

/// Who holds it for so long is stopped: it is not waited for again and again.
bool TuningStore::is_busy(const KeyLock& lock) const {
  if (lock.state() == KeyLock::State::busy) patience_ = {};
  return lock.state() == KeyLock::State::busy;
}

std::vector<TuningEntry> TuningStore::entries(const TuningKey& key) const {
  std::vector<TuningEntry> own, elsewhere;
  const nlohmann::json content = locked_read();
  for (const JsonField& tuning : JsonField(content, "store").at("tunings").items()) {
    const TuningKey known = key_of(tuning);
    if (!same_but_for_shape(known, key)) continue;
    for (const JsonField& field : tuning.at("entries").items()) {
      TuningEntry entry = entry_of(field);
      if (known == key)
        own.push_back(std::move(entry));
      else if (!entry.rejected.empty())
        elsewhere.push_back(std::move(entry));
    }
  }
  own.insert(own.end(), elsewhere.begin(), elsewhere.end());
  return own;
}

std::vector<TunedText> TuningStore::choices(const TuningKey& key) const {
  std::vector<std::pair<double, TunedText>> found;
  std::vector<TunedText> rejected;
  const nlohmann::json content = locked_read();
  for (const JsonField& tuning : JsonField(content, "store").at("tunings").items()) {
    const TuningKey known = key_of(tuning);
    if (!same_but_for_shape(known, key)) continue;
    for (const JsonField& field : tuning.at("entries").items())
      if (const TuningEntry entry = entry_of(field); !entry.rejected.empty()) rejected.push_back(entry.text);
    if (const auto choice = choice_of(tuning)) found.emplace_back(unlikeness(known.shape, key.shape), *choice);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TunedText> choices;
  for (const auto& [ignored, text] : found) {
    const auto among = [&](const std::vector<TunedText>& list) {
      return std::find(list.begin(), list.end(), text) != list.end();
    };
    if (!among(rejected) && !among(choices)) choices.push_back(text);
  }
  return choices;
}

void TuningStore::add_timing(const TuningKey& key, const TunedText& text, double ms) const {
  if (!(ms > 0) || !std::isfinite(ms)) return;
  change(key, [&](ordered_json& tuning) { entry_in(tuning, text)["ms"].push_back(ms); });
}

void TuningStore::reject(const TuningKey& key, const TunedText& text, const std::string& reason) const {
  change(key, [&](ordered_json& tuning) { entry_in(tuning, text)["rejected"] = reason.empty() ? "unknown" : reason; });
}

void TuningStore::choose(const TuningKey& key, const TunedText& text) const {
  change(key, [&](ordered_json& tuning) {
    tuning["choice"] = {{"schedule", text.schedule}, {"text_hash", text.text_hash}};
  });
}

void TuningStore::change(const TuningKey& key, const std::function<void(ordered_json& tuning)>& edit) const {
  const auto give_up = [](const std::string& why) { warn_once(fmt::format("timings are not kept: {}", why)); };
  if (const std::string problem = make_private_folder(file_.parent_path()); !problem.empty()) return give_up(problem);
  std::filesystem::path lock_file = file_;
  const KeyLock lock(lock_file += ".lock", patience_);
  if (is_busy(lock))
    return give_up(fmt::format("another process has held {} too long; end it if it is stopped", lock_file.string()));
  ordered_json content = read(true);
  edit(find_or_add(content["tunings"], [&](const ordered_json& known) { return key_of(known) == key; },
                   {{"text_hash", key.text_hash},
                    {"compiler", key.compiler},
                    {"machine", key.machine},
                    {"shape", to_json(key.shape)},
                    {"choice", nullptr},
                    {"entries", ordered_json::array()}}));
  const std::string text = content.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  const std::string_view pieces[] = {text};
  const std::string failure = write_file_atomically(file_, pieces, false);
  if (!failure.empty()) give_up(failure);
}

}  // namespace kdagen::runtime
