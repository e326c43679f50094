// SPDX-License-Identifier: Apache-2.0
// Whether two texts of one pass give the same bits on a device.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/call.h"

namespace kdagen::tune {

/// The outputs of a kernel on one problem, kept on the host.
class Reference {
 public:
  /// Runs `kernel`. `call` must outlive this and may be used for other things between.
  Reference(runtime::CudaKernel& kernel, DeviceCall& call, int ordinal);
  /// "dx differs from the default's", of the first output that does; empty if none. What a kernel does not write
  /// differs from what the other one wrote.
  std::string difference(runtime::CudaKernel& kernel);

 private:
  void run(runtime::CudaKernel& kernel);

  DeviceCall& call_;
  int ordinal_;
  std::map<std::string, std::vector<std::byte>> bits_;
};

/// References on a few small problems: full and ragged tiles, more of them than a block of any schedule takes, packed
/// sequences with an empty one; tensors that are aligned and such that are not, offsets of 32 and of 64 bits, so that
/// every entry of a text runs.
class SmallReferences {
 public:
  SmallReferences(runtime::CudaKernel& kernel, int ordinal);
  std::string difference(runtime::CudaKernel& kernel);

 private:
  std::vector<std::unique_ptr<DeviceCall>> calls_;
  std::vector<Reference> references_;
};

}  // namespace kdagen::tune
