// SPDX-License-Identifier: Apache-2.0
#include "duration.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>

#include <fmt/core.h>

namespace holdfast::cli {

namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};

constexpr std::array kUnits{Unit{"ms", 1}, Unit{"s", 1'000}, Unit{"m", 60'000},
                            Unit{"h", 3'600'000}, Unit{"d", 86'400'000}};
constexpr std::int64_t kMsMax = std::int64_t{36'500} * 86'400'000;

}  // namespace

std::optional<Duration> parse_duration(std::string_view word) {
  std::int64_t count = 0;
  const char* const begin = word.data();
  const char* const end = begin + word.size();
  const auto [rest, error] = std::from_chars(begin, end, count);
  if (error != std::errc{} || count < 0) {
    return std::nullopt;
  }
  const std::string_view name(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& unit : kUnits) {
    if (unit.name == name && count <= kMsMax / unit.ms) {
      return Duration(std::chrono::milliseconds(count * unit.ms));
    }
  }
  return std::nullopt;
}

std::string duration_text(Duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  if (ms < 1'000) {
    return fmt::format("{}ms", ms < 0 ? 0 : ms);
  }
  const auto seconds = ms / 1'000;
  if (seconds < 60) {
    return fmt::format("{}s", seconds);
  }
  if (seconds < 3'600) {
    return fmt::format("{}m {}s", seconds / 60, seconds % 60);
  }
  if (seconds < 86'400) {
    return fmt::format("{}h {}m", seconds / 3'600, seconds / 60 % 60);
  }
  return fmt::format("{}d {}h", seconds / 86'400, seconds / 3'600 % 24);
}

}  // namespace holdfast::cli
