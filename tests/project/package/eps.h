// SPDX-License-Identifier: Apache-2.0
// Included by the spec: the build must follow it.
inline constexpr double default_eps = 1e-5;
