// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kdagen/error.h"
#include "runtime/files.h"
#include "runtime/key_lock.h"
#include "runtime/strict_json.h"
#include "runtime/warn.h"

namespace kdagen::runtime {
namespace {

bool is_digest(std::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(),
                                          [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

bool is_entry_file(const std::filesystem::path& path) {
  const std::string extension = path.extension().string(), stem = path.stem().string();
  if (is_digest(stem) && (extension == ".bin" || extension == ".json" || extension == ".lock")) return true;
  return path.filename().string().starts_with(".kdagen-");
}

std::filesystem::path with_extension(const std::filesystem::path& folder, const CacheKey& key, const char* extension) {
  return folder / (key.digest() + extension);
}

// Damage can leave anything under an entry's name, and rename does not replace a folder by a file.
std::string replace_file(const std::filesystem::path& path, std::initializer_list<std::string_view> pieces) {
  std::error_code ignored;
  if (std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored)))
    std::filesystem::remove_all(path, ignored);
  return write_file_atomically(path, std::span(pieces.begin(), pieces.size()), false);
}

nlohmann::json metadata(const CacheKey& key, const CachedObject& object) {
  return {{"schema", cache_schema},
          {"key", key.full()},
          {"kernel", key.kernel},
          {"arch", key.arch},
          {"compiler", key.compiler},
          {"bytes", object.bytes.size()},
          {"hash", hash_text(object.bytes)},
          {"info", object.info}};
}

std::string make_private_folders(std::filesystem::path folder, const std::filesystem::path& below) {
  std::string problem = make_private_folder(folder);
  for (const std::filesystem::path& step : below)
    if (problem.empty()) problem = make_private_folder(folder /= step);
  return problem;
}

// Files that are there already, with the right text, are left alone. Returns what failed.
std::string unpack_into(const std::filesystem::path& folder, std::span<const EmbeddedFile> files) {
  for (const EmbeddedFile& file : files) {
    const std::filesystem::path path = folder / file.path;
    std::string error = make_private_folders(folder, std::filesystem::path(file.path).parent_path());
    if (!error.empty()) return error;
    if (read_file(path, error, true) == file.text) continue;
    error = replace_file(path, {file.text});
    if (!error.empty()) return error;
  }
  return "";
}

}  // namespace

std::string hash_text(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string CacheKey::full() const {
  nlohmann::json list = nlohmann::json::array();
  const auto add = [&](const std::string& name, const std::string& value) {
    constexpr std::size_t longest = 200;
    list.push_back(
        {name, value.size() > longest ? fmt::format("{} bytes, xxh3 {}", value.size(), hash_text(value)) : value});
  };
  add("schema", std::to_string(cache_schema));
  add("kernel", kernel);
  add("arch", arch);
  add("compiler", compiler);
  for (const auto& [name, value] : parts) add(name, value);
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string CacheKey::digest() const { return hash_text(full()); }

Cache& Cache::shared() {
  // A function-local static, so that a private folder is removed at exit.
  static Cache cache(choose_cache_directory());
  return cache;
}

bool Cache::read(const CacheKey& key, CachedObject& object, std::string& damage) const {
  const std::filesystem::path binary = with_extension(objects(), key, ".bin"),
                              meta = with_extension(objects(), key, ".json");
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(meta, ignored))) return false;
  const auto fail = [&](std::string what) {
    damage = std::move(what);
    return false;
  };
  std::string error;
  const auto text = read_file(meta, error, true);
  if (!text) return fail(fmt::format("{}: {}", meta.string(), error));
  try {
    const nlohmann::json parsed = parse_strict_json(*text, meta.string());
    const JsonField root(parsed, meta.string());
    if (root.at("schema").integer(0) != cache_schema || root.at("key").string() != key.full())
      return fail(fmt::format("{} belongs to another key", meta.string()));
    const auto bytes = read_file(binary, error, true);
    if (!bytes) return fail(fmt::format("{}: {}", binary.string(), error));
    if (static_cast<std::int64_t>(bytes->size()) != root.at("bytes").integer(0) ||
        hash_text(*bytes) != root.at("hash").string())
      return fail(fmt::format("{} does not have the contents that were written", binary.string()));
    object = {*bytes, root.at("info").value(), binary, false};
    return true;
  } catch (const UsageError& broken) {
    return fail(broken.what());
  }
}

std::string Cache::write(const CacheKey& key, CachedObject& object) {
  const std::filesystem::path binary = with_extension(objects(), key, ".bin"),
                              meta = with_extension(objects(), key, ".json");
  // Metadata last: it vouches for the bytes.
  std::string error = replace_file(binary, {object.bytes});
  if (!error.empty()) return error;
  object.file = binary;
  error = replace_file(meta, {metadata(key, object).dump(1) + "\n"});
  std::error_code ignored;
  if (!error.empty()) std::filesystem::remove(binary, ignored);
  return error;
}

CachedObject Cache::get(const CacheKey& key, const std::function<CachedObject()>& build) {
  const auto built = [&] {
    CachedObject object = build();
    object.built = true;
    return object;
  };
  if (directory_.path.empty()) return built();
  if (const std::string problem = make_private_folder(objects()); !problem.empty()) {
    warn_once(fmt::format("the cache is not used: {}", problem));
    return built();
  }
  CachedObject object;
  std::string damage;
  if (read(key, object, damage)) return object;
  const KeyLock lock(with_extension(objects(), key, ".lock"), patience_);
  damage.clear();  // it may have been another process's write, half seen
  if (read(key, object, damage)) return object;
  if (!damage.empty()) warn_once(fmt::format("a cache entry is damaged and made anew: {}", damage));
  object = built();
  // The holder will write the entry; two writers could leave one's bytes beside the other's hash.
  const std::string error =
      lock.state() == KeyLock::State::busy ? "another process holds the lock of an entry" : write(key, object);
  if (!error.empty()) {
    object.file.clear();
    warn_once(fmt::format("the cache is not used: {}", error));
  }
  return object;
}

std::vector<CacheEntry> Cache::list() const {
  std::vector<CacheEntry> entries;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator(objects(), ignored)) {
    const std::filesystem::path& path = item.path();
    std::string error;
    if (path.extension() != ".json" || !is_digest(path.stem().string())) continue;
    const auto text = read_file(path, error, true);
    if (!text) continue;
    const nlohmann::json meta = nlohmann::json::parse(*text, nullptr, false);
    struct stat status{};
    if (!meta.is_object() || ::stat(path.c_str(), &status) != 0) continue;
    const auto string = [&](const char* name) {
      return meta.contains(name) && meta[name].is_string() ? meta[name].get<std::string>() : std::string("?");
    };
    CacheEntry entry{path.stem().string(), string("kernel"), string("arch"), string("compiler"), 0, 0};
    const auto binary_size = std::filesystem::file_size(std::filesystem::path(path).replace_extension(".bin"), ignored);
    entry.bytes = static_cast<std::int64_t>(text->size() + (ignored ? 0 : binary_size));
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    entry.age_seconds =
        std::max(0.0, std::chrono::duration<double>(now).count() - static_cast<double>(status.st_mtime));
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.age_seconds, a.digest) < std::tie(b.age_seconds, b.digest);
  });
  return entries;
}

std::int64_t Cache::clear() {
  std::int64_t freed = 0;
  std::error_code ignored;
  std::vector<std::filesystem::path> doomed;
  for (const auto& item : std::filesystem::directory_iterator(objects(), ignored))
    if (is_entry_file(item.path())) doomed.push_back(item.path());
  for (const auto& item : std::filesystem::directory_iterator(directory_.path, ignored)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with("include-") && is_digest(name.substr(8))) doomed.push_back(item.path());
  }
  for (const std::filesystem::path& path : doomed) {
    if (std::filesystem::is_regular_file(path, ignored))
      freed += static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
    std::filesystem::remove_all(path, ignored);
  }
  return freed;
}

std::string Cache::explain() const {
  std::string text = fmt::format("folder: {} ({})\n", directory_.path.empty() ? "none" : directory_.path.string(),
                                 directory_.persistent ? "named by " + directory_.origin : "private to this process");
  if (!directory_.problem.empty()) text += fmt::format("reason: {}\n", directory_.problem);
  std::int64_t bytes = 0;
  const std::vector<CacheEntry> entries = list();
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  text += fmt::format("entries: {}, {} bytes\n", entries.size(), bytes);
  text +=
      "key: the emitted text, the compiler's options, the architecture, the compiler's name and version, the device\n"
      "  prelude (for the emulator also its header), and the version of the cache's format. Names and dates are no "
      "part.\n"
      "entry: <hash of the key>.bin and .json; the .json holds the full key and the hash of the .bin, and both are\n"
      "  compared before an entry is used. A damaged entry is made anew.\n"
      "chosen by: KDAGEN_CACHE_DIR, else XDG_CACHE_HOME/kdagen, else HOME/.cache/kdagen\n";
  return text;
}

TemporaryDirectory Cache::scratch() const {
  TemporaryDirectory folder({directory_.path});
  if (!folder)
    throw ToolchainError(
        "no folder for a compiler's files can be made: neither the cache, TMPDIR, /tmp nor /var/tmp can be "
        "written. Set KDAGEN_CACHE_DIR to a folder that can, or compile with NVRTC");
  return folder;
}

std::filesystem::path Cache::unpack(std::span<const EmbeddedFile> files) {
  std::string all, error = "no place can be written";
  for (const EmbeddedFile& file : files) all += fmt::format("{} {}\n{}", file.path, file.text.size(), file.text);
  const std::string name = "include-" + hash_text(all);
  if (!directory_.path.empty()) error = unpack_into(directory_.path / name, files);
  if (error.empty()) return directory_.path / name;
  const std::lock_guard lock(mutex_);
  if (!fallback_) fallback_ = TemporaryDirectory(std::vector<std::filesystem::path>{});
  if (fallback_) error = unpack_into(fallback_.path() / name, files);
  if (!error.empty())
    throw ToolchainError(fmt::format("cannot unpack headers: {}; set KDAGEN_CACHE_DIR to a folder with room", error));
  return fallback_.path() / name;
}

}  // namespace kdagen::runtime
