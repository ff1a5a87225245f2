// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <holdfast/batch.hpp>

namespace holdfast {

/// What is stored under a key.
struct Entry {
  std::string key;
  std::string value;
  Version version = 0;

  bool operator==(const Entry&) const = default;
};

/// Applied, as the commit with this number. Everything it wrote has this version.
struct Committed {
  Version version = 0;
};

/// A condition did not hold; nothing was written. Redo the work on `current`.
struct Conflict {
  std::string key;               ///< Of the first condition that did not hold.
  std::optional<Entry> current;  ///< What is there instead; nothing if the key does not exist.
};

/// A guard did not hold: someone else has taken over. Nothing was written, and nothing that this
/// process does on the old footing will be.
struct Fenced {
  std::string key;
  Version expected = 0;
  std::optional<Entry> current;
};

/// How a commit ended. There are five ways, and they are never mixed up: these three, which callers
/// expect, are values; the other two are thrown, by reads as well: `StoreBusy` (nothing happened,
/// try again) and `StoreCorrupt` (stop).
///
/// ```
/// if (const Conflict* conflict = outcome.conflict()) { ... conflict->current ... }
/// ```
class [[nodiscard]] CommitOutcome {
 public:
  CommitOutcome(Committed committed) noexcept : ended_(committed) {}  // NOLINT(*-explicit-*)
  CommitOutcome(Conflict conflict) : ended_(std::move(conflict)) {}   // NOLINT(*-explicit-*)
  CommitOutcome(Fenced fenced) : ended_(std::move(fenced)) {}         // NOLINT(*-explicit-*)

  [[nodiscard]] const Committed* committed() const noexcept {
    return std::get_if<Committed>(&ended_);
  }
  [[nodiscard]] const Conflict* conflict() const noexcept { return std::get_if<Conflict>(&ended_); }
  [[nodiscard]] const Fenced* fenced() const noexcept { return std::get_if<Fenced>(&ended_); }

  /// For std::visit.
  [[nodiscard]] const std::variant<Committed, Conflict, Fenced>& ended() const noexcept {
    return ended_;
  }

 private:
  std::variant<Committed, Conflict, Fenced> ended_;
};

}  // namespace holdfast
