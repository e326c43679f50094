// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kdagen/error.h"
#include "runtime/binding.h"
#include "runtime/cache.h"
#include "runtime/launcher_header.h"
#include "runtime/safetensors.h"
#include "runtime/tensor_map.h"
#include "runtime/tuning_store.h"
#include "runtime/warn.h"
#include "tests/common/manifests.h"
#include "tests/common/scratch.h"
#include "tests/fuzz/inputs/readers.h"

namespace kdagen::testing {
namespace {

using namespace runtime;
namespace fs = std::filesystem;

/// In memory, and removed at the end of the process.
const fs::path& folder() {
  static const TemporaryDirectory made({"/dev/shm"});
  return made.path();
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void silence_warnings() {
  set_warning_sink([](const std::string&) {});
}

/// Everything that a call does with a manifest, short of launching.
void call(const Manifest& manifest, const Problem& problem) {
  std::vector<TensorRef> tensors;
  std::uintptr_t address = 1 << 20;
  for (const TensorInfo& info : manifest.tensors) {
    const Dims shape = tensor_shape(manifest, info, problem);
    tensors.push_back({info.name, reinterpret_cast<void*>(address), info.dtype, shape, contiguous_strides(shape), 0});
    const std::int64_t bytes = checked_add(checked_multiply(element_count(shape), 8), 4096);
    if (bytes > (std::int64_t{1} << 44)) throw UsageError("too large to have an address here");
    address = (address + static_cast<std::uintptr_t>(bytes)) & ~std::uintptr_t{255};
  }
  const Binding binding = bind_tensors(manifest, problem, tensors);
  const WorkspaceLayout layout = workspace_layout(manifest, problem);
  const auto words = build_words(manifest, problem, binding, layout, reinterpret_cast<void*>(std::uintptr_t{1} << 46),
                                 [&](const BoundTensor& tensor, int rows) {
                                   tensor_box(manifest, problem, tensor, rows);
                                   return TensorMapWords{};
                                 });
  require(static_cast<int>(words.size()) == argument_words(manifest), "another number of words than announced");
  for (const LaunchStep& step : launch_steps(manifest, problem, binding))
    require(step.grid[0] && step.grid[1] && step.grid[2], "an empty grid");
}

constexpr char separator = '\x1e';

const CacheKey key{"kernel", "sm_90", "compiler 1", {{"text", "a text"}, {"options", "-O3"}}};
const std::string object_bytes = "the object of the key";

Cache& cache() {
  static Cache* const made = [] {
    WithVariable named("KDAGEN_CACHE_DIR", (folder() / "cache").string());
    return new Cache(choose_cache_directory());
  }();
  return *made;
}

CachedObject object_of_key() {
  return cache().get(key, [] {
    CachedObject object;
    object.bytes = object_bytes;
    object.info = {{"log", "none"}};
    return object;
  });
}

fs::path entry_file(const char* extension) { return folder() / "cache/objects" / (key.digest() + extension); }

bool accepts_manifest(const std::string& bytes) {
  const Manifest manifest = load_manifest(bytes);
  const std::string text = dump_manifest(manifest);
  require(dump_manifest(load_manifest(text)) == text, "a manifest does not load back");
  launcher_header(manifest);
  static const std::int32_t offsets[4] = {};
  for (const Problem& problem : {Problem{2, 33, 3, 2}, Problem{1, 40, 2, 3, offsets, OffsetType::i32},
                                 Problem{1, 0, 1, 1}, Problem{1, std::int64_t{1} << 40, 1 << 20, 1}}) {
    try {
      call(manifest, problem);
    } catch (const UsageError&) {
      continue;
    }
  }
  return true;
}

std::vector<std::string> manifest_seeds() {
  std::vector<std::string> seeds{sample_manifest_text};
  for (const auto& item : fs::recursive_directory_iterator(KDAGEN_GENERATED))
    if (item.path().extension() == ".json") seeds.push_back(slurp(item.path()));
  return seeds;
}

bool accepts_tuning_store(const std::string& bytes) {
  silence_warnings();
  const TuningKey key{"0123456789abcdef", "NVRTC 13.1", "a machine", {}};
  const TuningStore store(folder(), "Fake 90", "sm_90", "sample_fwd");
  fs::create_directories(store.file().parent_path());
  spill(store.file(), bytes);
  for (const TuningEntry& entry : store.entries(key))
    for (const double ms : entry.ms) require(ms > 0 && std::isfinite(ms), "a time that is none");
  store.choices(key);
  const bool kept = fs::exists(store.file());
  store.add_timing(key, {"threads=256", "t"}, 2);
  bool found = false;
  for (const TuningEntry& entry : store.entries(key)) found = found || entry.text.schedule == "threads=256";
  require(found, "a timing is lost");
  return kept;
}

std::vector<std::string> tuning_store_seeds() {
  silence_warnings();
  const TuningStore store(folder(), "Fake 90", "sm_90", "sample_fwd");
  fs::remove(store.file());
  for (const bool packed : {false, true}) {
    TuningKey key{"0123456789abcdef", "NVRTC 13.1", "a machine", {}};
    key.shape.packed = packed;
    store.add_timing(key, {"threads=128,stages=2", "t"}, 3);
    store.add_timing(key, {"threads=128,stages=2", "t"}, 1.5);
    store.reject(key, {"threads=512", "t"}, "spills 16 bytes");
    if (packed) store.choose(key, {"threads=128,stages=2", "t"});
  }
  return {slurp(store.file())};
}

bool accepts_cache_entry(const std::string& bytes) {
  silence_warnings();
  cache();
  fs::create_directories(folder() / "cache/objects");
  ::chmod((folder() / "cache/objects").c_str(), 0700);
  const std::size_t cut = std::min(bytes.find(separator), bytes.size());
  spill(entry_file(".json"), bytes.substr(0, cut));
  spill(entry_file(".bin"), bytes.substr(std::min(cut + 1, bytes.size())));
  const CachedObject object = object_of_key();
  require(object.bytes == object_bytes, "another object than the key's");
  require(!object.built || !object_of_key().built, "the entry is not repaired");
  cache().list();
  return !object.built;
}

std::vector<std::string> cache_entry_seeds() {
  silence_warnings();
  cache().clear();
  object_of_key();
  return {slurp(entry_file(".json")) + separator + slurp(entry_file(".bin"))};
}

bool accepts_safetensors(const std::string& bytes) {
  const fs::path file = folder() / "in.safetensors", copy = folder() / "copy.safetensors";
  spill(file, bytes);
  const TensorFile tensors = read_safetensors(file);
  write_safetensors(copy, tensors);
  const TensorFile again = read_safetensors(copy);
  require(again.metadata == tensors.metadata && again.tensors.size() == tensors.tensors.size(),
          "a file does not read back");
  for (const auto& [name, tensor] : tensors.tensors) {
    const HostTensor& other = again.tensors.at(name);
    require(other.dtype == tensor.dtype && other.shape == tensor.shape && other.data == tensor.data,
            "a tensor does not read back");
  }
  return true;
}

std::vector<std::string> safetensors_seeds() {
  std::vector<std::string> seeds;
  TensorFile tensors;
  const auto add = [&] {
    write_safetensors(folder() / "seed.safetensors", tensors);
    seeds.push_back(slurp(folder() / "seed.safetensors"));
  };
  add();
  tensors.metadata = {{"format", "pt"}};
  tensors.tensors.emplace("x", HostTensor(DType::bf16, {2, 3}));
  tensors.tensors.emplace("scalar", HostTensor(DType::f64, {}));
  add();
  for (const DType dtype : {DType::f32, DType::fp16, DType::i64, DType::i32, DType::i8})
    tensors.tensors.emplace("t" + std::to_string(static_cast<int>(dtype)), HostTensor(dtype, {1, 2, 0, 3}));
  add();
  return seeds;
}

}  // namespace

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all{{"manifest", accepts_manifest, manifest_seeds, true},
                                       {"tuning_store", accepts_tuning_store, tuning_store_seeds, true},
                                       {"cache_entry", accepts_cache_entry, cache_entry_seeds, false},
                                       {"safetensors", accepts_safetensors, safetensors_seeds, false}};
  return all;
}

}  // namespace kdagen::testing
