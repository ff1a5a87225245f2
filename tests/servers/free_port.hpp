// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace holdfast::servers {

/// A port of 127.0.0.1 that nobody listened on a moment ago. Another may take it before you do:
/// then ask again.
[[nodiscard]] std::uint16_t free_port();

}  // namespace holdfast::servers
