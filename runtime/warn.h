// SPDX-License-Identifier: Apache-2.0
// Things that went wrong without stopping the work. Each message is shown once a process.
#pragma once
#include <functional>
#include <string>

namespace kdagen::runtime {

/// "kdagen: warning: <message>" on stderr, unless this process has said it before.
void warn_once(const std::string& message);

/// Sends warnings elsewhere, and forgets which were said; an empty function restores stderr.
void set_warning_sink(std::function<void(const std::string&)> sink);

}  // namespace kdagen::runtime
