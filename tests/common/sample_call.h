// SPDX-License-Identifier: Apache-2.0
// A correct call of the sample manifest that tests change in one place. Addresses are made up: nothing is read.
#pragma once
#include <algorithm>

#include "runtime/binding.h"
#include "tests/common/manifests.h"

namespace kdagen::testing {

struct SampleCall {
  runtime::Manifest manifest = sample_manifest();
  runtime::Problem problem{2, 33, 3, 2};
  std::vector<runtime::TensorRef> tensors;

  SampleCall() {
    std::uintptr_t address = 1 << 20;
    for (const runtime::TensorInfo& info : manifest.tensors) {
      const runtime::Dims shape = runtime::tensor_shape(manifest, info, problem);
      tensors.push_back(
          {info.name, reinterpret_cast<void*>(address), info.dtype, shape, runtime::contiguous_strides(shape), 0});
      address += static_cast<std::uintptr_t>(runtime::element_count(shape)) * 8 + 4096;
      address &= ~std::uintptr_t{255};
    }
  }
  runtime::TensorRef& operator[](std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  }
  void remove(std::string_view name) {
    std::erase_if(tensors, [&](const runtime::TensorRef& t) { return t.name == name; });
  }
  runtime::Binding bind() const { return runtime::bind_tensors(manifest, problem, tensors); }
};

}  // namespace kdagen::testing
