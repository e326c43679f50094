// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime/device.h"
#include "tests/common/row_scale_case.h"

namespace kdagen::testing {

using runtime::DeviceBuffer;
using runtime::TensorRef;

/// A RowScaleCase whose tensors are device buffers.
struct DeviceCase {
  RowScaleCase data;
  DeviceBuffer x, weight, y, total, offsets;

  DeviceCase(int device, RowScaleCase host) : data(std::move(host)) {
    const auto upload = [&](DeviceBuffer& buffer, const auto& values) {
      buffer = DeviceBuffer(device, static_cast<std::int64_t>(values.size() * sizeof(values[0])));
      buffer.upload(values.data(), buffer.bytes());
    };
    upload(x, data.x);
    upload(weight, data.weight);
    upload(y, data.y);
    upload(total, data.total);
    if (!data.problem.packed()) return;
    upload(offsets, data.offsets64);
    data.problem.cu_seqlens = offsets.data();
  }
  std::vector<TensorRef> tensors() {
    std::vector<TensorRef> list = data.tensors();
    const std::pair<const void*, void*> moved[] = {{data.x.data(), x.data()},
                                                   {data.weight.data(), weight.data()},
                                                   {data.y.data(), y.data()},
                                                   {data.total.data(), total.data()}};
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::ptrdiff_t shift = static_cast<const char*>(list[i].data) - static_cast<const char*>(moved[i].first);
      list[i].data = static_cast<char*>(moved[i].second) + shift;
      list[i].device_ordinal = x.ordinal();
    }
    return list;
  }
  /// Fetches what the launch wrote and compares.
  void expect_right() {
    y.download(data.y.data(), y.bytes());
    total.download(data.total.data(), total.bytes());
    data.expect_right();
  }
};

}  // namespace kdagen::testing
