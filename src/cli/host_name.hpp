// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace holdfast::cli {

/// Of this machine, at most 64 bytes; empty if it has none.
[[nodiscard]] std::string host_name();

}  // namespace holdfast::cli
