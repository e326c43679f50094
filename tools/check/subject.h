// SPDX-License-Identifier: Apache-2.0
// What is judged: a pass that maps input tensors to output tensors, by the float32 evaluator or as emitted text.
#pragma once
#include <memory>
#include <string>

#include "codegen/evaluator/evaluator.h"
#include "runtime/kernel.h"
#include "specs/workloads/workload.h"
#include "tools/execute/launch.h"

namespace kdagen {

/// Tensors in and out are canonical (specs/workloads/tensor.h); inputs that the pass does not have are ignored, outputs
/// that it fails to write are left out.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Tensors run(const Tensors& inputs, const Shape& shape) = 0;
};

/// The kernel in the arithmetic of the emitted text; outputs are not yet rounded to their storage.
std::unique_ptr<Subject> evaluated_subject(kda::KernelOp kernel);

/// An emitted text on the emulator (device_ordinal -1) or a CUDA device, called with `memory`. The first run happens
/// `orders` times, on the emulator each time in another order of threads, every second time in memory unlike it:
/// unaligned tensors (or aligned ones), with gaps (or dense), 64-bit offsets (or 32-bit ones), outputs that repeat an
/// input in its memory; CheckError when a bit differs, or with the emulator's reports of a faulty text. Output buffers
/// are filled with NaN before each run.
std::unique_ptr<Subject> emitted_subject(std::unique_ptr<runtime::Kernel> kernel, int device_ordinal,
                                         unsigned orders = 2, CallersMemory memory = {});

}  // namespace kdagen
