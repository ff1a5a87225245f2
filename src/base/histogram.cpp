// SPDX-License-Identifier: Apache-2.0
#include <holdfast/histogram.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace holdfast {

// Below kSteps each value has its own bucket; above, the three bits after the highest choose one.
std::size_t Histogram::bucket_of(std::uint64_t nanoseconds) noexcept {
  if (nanoseconds < kSteps) {
    return nanoseconds;
  }
  const auto octave = static_cast<std::size_t>(std::bit_width(nanoseconds)) - 4;
  return (octave + 1) * kSteps + ((nanoseconds >> octave) - kSteps);
}

std::uint64_t Histogram::highest_in(std::size_t bucket) noexcept {
  if (bucket < kSteps) {
    return bucket;
  }
  const std::size_t octave = bucket / kSteps - 1;
  const std::uint64_t step = kSteps + bucket % kSteps;
  return ((step + 1) << octave) - 1;
}

void Histogram::add(Duration duration) noexcept {
  const Duration positive = std::max(duration, Duration::zero());
  ++buckets_.at(bucket_of(static_cast<std::uint64_t>(positive.count())));
  ++count_;
  total_ = positive > Duration::max() - total_ ? Duration::max() : total_ + positive;
  max_ = std::max(max_, positive);
}

Duration Histogram::quantile(double q) const noexcept {
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_.at(bucket);
    if (seen > 0 && seen >= wanted) {
      const Duration highest{static_cast<Duration::rep>(highest_in(bucket))};
      return std::min(highest, max_);
    }
  }
  return Duration::zero();
}

}  // namespace holdfast
