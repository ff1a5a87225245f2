// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace holdfast::testing {

/// Random numbers that are the same for the same seed with every compiler and library (splitmix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }
  /// From 0 to `count` - 1.
  std::uint64_t below(std::uint64_t count) { return next() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace holdfast::testing
