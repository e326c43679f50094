// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kdagen {
/// Registers `--kda-derive` (the module's forward kernel becomes its backward; options upstream, grads, save, taps),
/// `--kda-prepare-forward` and `--kda-clean-up`; for kdagen-opt.
void register_derive_passes();
}  // namespace kdagen
