// SPDX-License-Identifier: Apache-2.0
// Tensor files in the safetensors format: an 8-byte little-endian header length, a JSON header, the data.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/dtype.h"
#include "runtime/problem.h"

namespace kdagen::runtime {

/// A contiguous tensor in host memory.
struct HostTensor {
  DType dtype = DType::f32;
  Dims shape;
  std::vector<std::byte> data;

  HostTensor() = default;
  /// Zero-filled.
  HostTensor(DType dtype, const Dims& shape);

  std::int64_t elements() const { return element_count(shape); }
  /// Element `i` of the row-major order.
  double get(std::int64_t i) const { return load_as_double(dtype, data.data() + i * size_of(dtype)); }
  void set(std::int64_t i, double value) { store_from_double(dtype, data.data() + i * size_of(dtype), value); }
};

/// A view of it for a launch.
TensorRef ref(const std::string& name, HostTensor& tensor);

struct TensorFile {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Reads F64 F32 BF16 F16 I64 I32 I8. Strict: a missing, truncated or oversized file, a header that is no JSON object
/// or repeats a name, an unknown dtype, a size that does not match shape and dtype, gaps or overlaps between tensors,
/// or bytes left over are a UsageError naming the file and the tensor.
TensorFile read_safetensors(const std::filesystem::path& path);

/// Writes a temporary file in the same directory, then renames it: a reader sees the old file or the whole new one.
/// Deterministic bytes. UsageError when the place cannot be written.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace kdagen::runtime
