// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <holdfast/commit_outcome.hpp>

namespace holdfast::detail {

/// A write whose answer got lost.
struct LostWrite {
  std::optional<Entry> base;   ///< What it was to replace.
  std::string base_operation;  ///< Of what is there in `base`.
  std::string operation;       ///< Empty: it was to erase.
};

enum class Settled : std::uint8_t { kHappened, kDidNot, kUnknown };

/// What came of it, by what is there `now`. Never a guess: if it can have happened and have been
/// overwritten since, it is unknown.
[[nodiscard]] Settled settle(const LostWrite& lost, const std::optional<Entry>& now);

}  // namespace holdfast::detail
