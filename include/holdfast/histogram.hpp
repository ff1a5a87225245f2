// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <holdfast/clock.hpp>

namespace holdfast {

/// How durations are spread, in fixed memory: buckets an eighth of a power of two wide, so that a
/// quantile is at most 12.5 % too high, and never too low.
class Histogram {
 public:
  void add(Duration duration) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] Duration total() const noexcept { return total_; }
  [[nodiscard]] Duration max() const noexcept { return max_; }
  /// A duration that at least the share `q` (0 to 1) of all did not exceed; zero if there are none.
  [[nodiscard]] Duration quantile(double q) const noexcept;

 private:
  static constexpr std::size_t kSteps = 8;
  static constexpr std::size_t kBuckets = 64 * kSteps;
  static std::size_t bucket_of(std::uint64_t nanoseconds) noexcept;
  static std::uint64_t highest_in(std::size_t bucket) noexcept;

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Duration total_{};
  Duration max_{};
};

}  // namespace holdfast
