// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <holdfast/clock.hpp>

namespace holdfast::cli {

/// "500ms", "30s", "30m", "3h" or "1d": a whole number and a unit, up to 100 years. Nothing if it
/// is none of these.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view word);

/// For people: "350ms", "12s", "3m 12s", "2h 5m", "3d 4h". Below zero as zero.
[[nodiscard]] std::string duration_text(Duration duration);

}  // namespace holdfast::cli
