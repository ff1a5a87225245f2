// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
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

/// Which condition of `batch` is the first that does not hold, guards before all others; nothing if
/// all hold. `version_of(i)` is the version of the key of condition `i`, or nothing if there is
/// none.
template <std::invocable<std::size_t> VersionOf>
[[nodiscard]] std::optional<std::size_t> broken_condition(const Batch& batch,
                                                          const VersionOf& version_of) {
  const auto conditions = batch.conditions();
  std::optional<std::size_t> broken;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const Batch::Condition condition = conditions[i];
    const bool guard = condition.kind == Batch::Kind::kGuard;
    if ((!broken || guard) && !holds(condition, version_of(i))) {
      broken = i;
      if (guard) {
        return broken;
      }
    }
  }
  return broken;
}

/// What a batch with that broken condition ends with.
[[nodiscard]] inline CommitOutcome refusal(const Batch::Condition& broken,
                                           std::optional<Entry> current) {
  if (broken.kind == Batch::Kind::kGuard) {
    return Fenced{std::string(broken.key), broken.version, std::move(current)};
  }
  return Conflict{std::string(broken.key), std::move(current)};
}

}  // namespace holdfast::detail
