// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in memory, shared by manifests, launches and tensor files.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace kdagen::runtime {

enum class DType : std::uint8_t { f64, f32, bf16, fp16, i64, i32, i8 };

/// Bytes of one element.
std::int64_t size_of(DType dtype);

/// The manifest's spelling: f64 f32 bf16 fp16 i64 i32 i8.
std::string_view name_of(DType dtype);

/// Inverse of name_of; empty for any other text.
std::optional<DType> dtype_from_name(std::string_view name);

/// Value of the element at `address` as a double; i64 values beyond 2^53 are rounded.
double load_as_double(DType dtype, const void* address);

/// Rounds `value` once, to nearest even, from double to the element type (no intermediate float) and stores it.
/// Integers are rounded to nearest even and saturate; a NaN stored as an integer is 0.
void store_from_double(DType dtype, void* address, double value);

}  // namespace kdagen::runtime
