// SPDX-License-Identifier: Apache-2.0
// What the typed launchers that kdagen writes are made of: C++17 over <kdagen/runtime.h>.
#pragma once
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kdagen/runtime.h"

namespace kdagen::launcher {

/// `code` is one of runtime.h's.
class Failure : public std::runtime_error {
 public:
  Failure(int code, const std::string& message) : std::runtime_error(message), code(code) {}
  int code;
};

inline void check(int code) {
  if (code != KDAGEN_OK) throw Failure(code, kdagen_last_error());
}

/// A tensor in device memory; strides count elements. A null `data` leaves an optional tensor out.
template <kdagen_dtype dtype, int rank>
struct View {
  void* data = nullptr;
  std::array<std::int64_t, rank> shape{};
  std::array<std::int64_t, rank> strides{};

  View() = default;
  /// Row-major.
  View(void* data, const std::array<std::int64_t, rank>& shape) : data(data), shape(shape) {
    std::int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[i] = stride;
      stride *= shape[i];
    }
  }
  View(void* data, const std::array<std::int64_t, rank>& shape, const std::array<std::int64_t, rank>& strides)
      : data(data), shape(shape), strides(strides) {}

  kdagen_tensor named(const char* name, int device) const {
    return {name, data, dtype, device, rank, shape.data(), strides.data()};
  }
};

/// A loaded text with its manifest.
class Kernel {
 public:
  Kernel(const std::string& text_path, const std::string& manifest_path,
         kdagen_compiler compiler = KDAGEN_COMPILER_AUTO) {
    check(kdagen_load_files(text_path.c_str(), manifest_path.c_str(), compiler, &kernel_));
  }
  /// Text and manifest in memory.
  static Kernel from_memory(const std::string& text, const std::string& manifest,
                            kdagen_compiler compiler = KDAGEN_COMPILER_AUTO) {
    Kernel kernel;
    check(kdagen_load(text.data(), static_cast<std::int64_t>(text.size()), manifest.data(),
                      static_cast<std::int64_t>(manifest.size()), compiler, &kernel.kernel_));
    return kernel;
  }
  Kernel(Kernel&& other) noexcept : kernel_(std::exchange(other.kernel_, nullptr)) {}
  Kernel& operator=(Kernel&& other) noexcept {
    std::swap(kernel_, other.kernel_);
    return *this;
  }
  ~Kernel() { kdagen_unload(kernel_); }

  /// A binary of the text, so that no compiler is needed on devices of that architecture.
  void add_binary(const std::string& arch, const void* image, std::size_t bytes) {
    check(kdagen_add_binary(kernel_, arch.c_str(), image, static_cast<std::int64_t>(bytes)));
  }

  void warm_up(int device) { check(kdagen_warm_up(kernel_, device)); }

  std::int64_t workspace_bytes(const kdagen_problem& problem) const {
    std::int64_t bytes = 0;
    check(kdagen_workspace_bytes(kernel_, &problem, &bytes));
    return bytes;
  }

  kdagen_kernel* get() const { return kernel_; }

 private:
  Kernel() = default;
  kdagen_kernel* kernel_ = nullptr;
};

/// Where a launch runs. Without a workspace it takes its own memory in the order of the stream.
struct Place {
  int device = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
};

inline void launch(const Kernel& kernel, const std::vector<kdagen_tensor>& tensors, const kdagen_problem& problem,
                   const Place& place) {
  check(kdagen_launch(kernel.get(), tensors.data(), static_cast<std::int32_t>(tensors.size()), &problem, place.stream,
                      place.workspace, place.workspace_bytes));
}

}  // namespace kdagen::launcher
