// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/batch.hpp>
#include <holdfast/commit_outcome.hpp>

namespace holdfast::detail {

[[nodiscard]] inline bool holds(const Batch::Condition& condition,
                                std::optional<Version> version) noexcept {
  switch (condition.kind) {
    case Batch::Kind::kAbsent:
    case Batch::Kind::kNew:
      return !version.has_value();
    case Batch::Kind::kVersion:
    case Batch::Kind::kGuard:
      break;
  }
  return version == condition.version;
}

/// The first condition of `batch` that does not hold, guards before all others; null if all hold.
/// `version_of(condition)` is the version of its key, or nothing if it is absent.
template <std::invocable<const Batch::Condition&> VersionOf>
const Batch::Condition* broken_condition(const Batch& batch, const VersionOf& version_of) {
  const Batch::Condition* broken = nullptr;
  for (const Batch::Condition& condition : batch.conditions()) {
    const bool guard = condition.kind == Batch::Kind::kGuard;
    if ((broken == nullptr || guard) && !holds(condition, version_of(condition))) {
      if (guard) {
        return &condition;
      }
      broken = &condition;
    }
  }
  return broken;
}

/// What a batch with that broken condition ends with.
[[nodiscard]] inline CommitOutcome refusal(const Batch::Condition& broken,
                                           std::optional<Entry> current) {
  if (broken.kind == Batch::Kind::kGuard) {
    return Fenced{broken.key, broken.version, std::move(current)};
  }
  return Conflict{broken.key, std::move(current)};
}

}  // namespace holdfast::detail
