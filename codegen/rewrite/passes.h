// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kdagen::kda {
/// Registers one pass a rewrite (`--kda-projection`, ...) and `--kda-rewrite`, which runs them all; for kdagen-opt.
/// Options of kda-rewrite, kda-rounded-operand and kda-shared-exponential: rounded, proven=NAME,... (see passes.cpp).
void register_rewrite_passes();
}  // namespace kdagen::kda
