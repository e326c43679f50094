// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/same_bits.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

namespace kdagen::tune {
namespace {

constexpr int64_t slice_bytes = 32 << 20;
constexpr uint8_t unwritten = 0xff;  // NaN in every float type

/// Calls visit(bytes, offset) for slice after slice of the memory, as long as that returns true.
template <class Visit>
bool for_each_slice(const runtime::DeviceBuffer& memory, Visit visit) {
  std::vector<std::byte> slice(static_cast<size_t>(std::min(slice_bytes, memory.bytes())));
  for (int64_t at = 0; at < memory.bytes(); at += slice_bytes) {
    const int64_t bytes = std::min(slice_bytes, memory.bytes() - at);
    memory.download(slice.data(), bytes, at);
    if (!visit(slice.data(), bytes, at)) return false;
  }
  return true;
}

}  // namespace

Reference::Reference(runtime::CudaKernel& kernel, DeviceCall& call, int ordinal) : call_(call), ordinal_(ordinal) {
  run(kernel);
  for (const DeviceCall::Output& output : call_.outputs()) {
    std::vector<std::byte>& bits = bits_[output.name];
    bits.resize(static_cast<size_t>(output.bytes));
    output.memory->download(bits.data(), output.bytes);
  }
}

std::string Reference::difference(runtime::CudaKernel& kernel) {
  run(kernel);
  for (const DeviceCall::Output& output : call_.outputs()) {
    const std::vector<std::byte>& bits = bits_.at(output.name);
    const bool same = for_each_slice(*output.memory, [&](const std::byte* slice, int64_t bytes, int64_t at) {
      return std::memcmp(slice, bits.data() + at, static_cast<size_t>(bytes)) == 0;
    });
    if (!same) return fmt::format("{} differs from the default's", output.name);
  }
  return "";
}

void Reference::run(runtime::CudaKernel& kernel) {
  for (const DeviceCall::Output& output : call_.outputs()) output.memory->fill(unwritten);
  const runtime::Stream stream(ordinal_);
  call_.launch(kernel, stream.get());
  stream.synchronize();
}

SmallReferences::SmallReferences(runtime::CudaKernel& kernel, int ordinal) {
  Patterns patterns;
  const int64_t chunk = kernel.manifest().chunk;
  BenchSizes fixed, packed;
  fixed.batch = 2, fixed.tokens = 37 * chunk + 3, fixed.heads = 3;
  packed.heads = 3, packed.seqlens = {1, 2 * chunk + 5, 0, 4 * chunk, 40 * chunk + 1};
  constexpr auto i32 = runtime::OffsetType::i32, i64 = runtime::OffsetType::i64;
  const std::tuple<BenchSizes, bool, runtime::OffsetType> forms[] = {
      {fixed, true, i32}, {packed, true, i32}, {fixed, false, i32}, {packed, false, i64}};
  for (const auto& [sizes, aligned, offsets] : forms) {
    calls_.push_back(
        std::make_unique<DeviceCall>(kernel.manifest(), sizes, ordinal, patterns, CallForm{false, aligned, offsets}));
    references_.emplace_back(kernel, *calls_.back(), ordinal);
  }
}

std::string SmallReferences::difference(runtime::CudaKernel& kernel) {
  for (Reference& reference : references_)
    if (std::string difference = reference.difference(kernel); !difference.empty()) return difference;
  return "";
}

}  // namespace kdagen::tune
