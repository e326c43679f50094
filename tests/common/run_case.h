// SPDX-License-Identifier: Apache-2.0
// One spec under some options at one size: input files made to its manifests, and `kdagen run` on them.
#pragma once
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/manifest.h"
#include "runtime/safetensors.h"
#include "tests/common/kdagen_process.h"

namespace kdagen::testing {

using runtime::HostTensor;
using runtime::TensorFile;

/// Fixed length, or packed when `seqlens` has entries: then `dead_rows` rows follow the last sequence.
struct Sizes {
  int64_t batch = 1, tokens = 21, heads = 2;
  std::vector<int64_t> seqlens = {};
  int64_t dead_rows = 0;
  bool wide_offsets = false;  ///< cu_seqlens as i64

  int64_t used() const {
    int64_t rows = 0;
    for (int64_t length : seqlens) rows += length;
    return rows;
  }
};

class RunCase {
 public:
  RunCase(std::string spec, std::vector<std::string> sets, Sizes sizes)
      : spec_(std::move(spec)), sizes_(std::move(sizes)) {
    for (const std::string& set : sets) sets_.insert(sets_.end(), {"--set", set});
    problem_.heads = sizes_.heads;
    problem_.batch = sizes_.batch;
    problem_.tokens = sizes_.seqlens.empty() ? sizes_.tokens : sizes_.used() + sizes_.dead_rows;
    problem_.sequences = sizes_.batch;
    if (sizes_.seqlens.empty()) return;
    problem_.sequences = static_cast<int64_t>(sizes_.seqlens.size());
    problem_.offsets = sizes_.wide_offsets ? runtime::OffsetType::i64 : runtime::OffsetType::i32;
  }

  const runtime::Problem& problem() const { return problem_; }

  /// As `kdagen emit` writes it.
  runtime::Manifest manifest(const std::string& pass) const {
    const Outcome outcome = kdagen(arguments({"emit", spec_, "--pass", pass, "-o", folder_.path().string()}));
    if (outcome.code != 0) throw std::runtime_error(outcome.err);
    return runtime::load_manifest(slurp(folder_.path() / (spec_ + "_" + pass + ".json")));
  }

  /// Every input of the pass, N(0,1) (parameters N(0,1)/4), NaN wherever nothing may be read. Equal names get equal
  /// values in both passes.
  TensorFile inputs(const std::string& pass) const {
    const runtime::Manifest description = manifest(pass);
    TensorFile file;
    for (const runtime::TensorInfo& info : description.tensors) {
      if (info.direction != runtime::Direction::in || info.role == runtime::TensorRole::residual) continue;
      HostTensor tensor(info.dtype, runtime::tensor_shape(description, info, problem_));
      fill(tensor, info);
      if (info.dtype != runtime::DType::i8) poison(tensor, description, info);
      file.tensors.emplace(info.name, std::move(tensor));
    }
    if (problem_.packed()) file.tensors.emplace("cu_seqlens", offsets());
    return file;
  }

  /// The command's outcome; `out` stays where it is if it succeeded.
  Outcome start(const std::string& pass, const std::string& on, const TensorFile& inputs,
                const std::vector<std::string>& more = {}) const {
    const std::filesystem::path in = folder_.path() / "in.safetensors";
    runtime::write_safetensors(in, inputs);
    std::filesystem::remove(out());
    std::vector<std::string> command{"run", spec_,  "--pass",    pass,    "--on",
                                     on,    "--in", in.string(), "--out", out().string()};
    command.insert(command.end(), more.begin(), more.end());
    return kdagen(arguments(std::move(command)));
  }

  TensorFile run(const std::string& pass, const std::string& on, const TensorFile& inputs,
                 const std::vector<std::string>& more = {}) const {
    const Outcome outcome = start(pass, on, inputs, more);
    if (outcome.code != 0) throw std::runtime_error(outcome.err);
    return runtime::read_safetensors(out());
  }

  std::filesystem::path out() const { return folder_.path() / "out.safetensors"; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  std::vector<std::string> arguments(std::vector<std::string> command) const {
    command.insert(command.end(), sets_.begin(), sets_.end());
    return command;
  }

  static void fill(HostTensor& tensor, const runtime::TensorInfo& info) {
    std::seed_seq seed(info.name.begin(), info.name.end());
    std::mt19937 random(seed);
    const double size = info.role == runtime::TensorRole::param ? 0.25 : 1;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      double sum = -6;  // of twelve uniform numbers: nearly normal, the same everywhere
      for (int k = 0; k < 12; ++k) sum += random() * 0x1p-32;
      tensor.set(i, info.dtype == runtime::DType::i8 ? std::floor(sum) : size * sum);
    }
  }

  /// NaN in dead rows, in a tile's rows past its length, and in surplus tiles.
  void poison(HostTensor& tensor, const runtime::Manifest& description, const runtime::TensorInfo& info) const {
    const std::vector<runtime::DimRole> roles = runtime::dimensions(description, info);
    const std::vector<int64_t> lengths = tile_lengths(description.chunk);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      int64_t rest = i, token = -1, tile = -1, row = 0;
      for (size_t k = roles.size(); k-- > 0; rest /= tensor.shape[k]) {
        const int64_t at = rest % tensor.shape[k];
        if (roles[k] == runtime::DimRole::tokens) token = at;
        if (roles[k] == runtime::DimRole::tile) tile = at;
        if (roles[k] == runtime::DimRole::chunk_row) row = at;
      }
      const bool dead = problem_.packed() && token >= sizes_.used();
      const bool surplus = tile >= static_cast<int64_t>(lengths.size());
      if (dead || surplus || (tile >= 0 && row >= lengths[tile]))
        tensor.set(i, std::numeric_limits<double>::quiet_NaN());
    }
  }

  std::vector<int64_t> tile_lengths(int64_t chunk) const {
    std::vector<int64_t> lengths, sequences = sizes_.seqlens;
    if (sequences.empty()) sequences.assign(sizes_.batch, sizes_.tokens);
    for (int64_t length : sequences)
      for (int64_t row = 0; row < length; row += chunk) lengths.push_back(std::min(chunk, length - row));
    return lengths;
  }

  HostTensor offsets() const {
    HostTensor tensor(sizes_.wide_offsets ? runtime::DType::i64 : runtime::DType::i32, {problem_.sequences + 1});
    double at = 0;
    for (size_t i = 0; i < sizes_.seqlens.size(); ++i) tensor.set(i + 1, at += sizes_.seqlens[i]);
    return tensor;
  }

  std::string spec_;
  std::vector<std::string> sets_;
  Sizes sizes_;
  runtime::Problem problem_;
  Scratch folder_ = scratch();
};

/// ||a - b|| / ||b||; infinite when the shapes differ or anything is not finite.
inline double relative_difference(const HostTensor& a, const HostTensor& b) {
  if (!(a.shape == b.shape)) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    difference += std::pow(a.get(i) - b.get(i), 2);
    size += std::pow(b.get(i), 2);
  }
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

}  // namespace kdagen::testing
