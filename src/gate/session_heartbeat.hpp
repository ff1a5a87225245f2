// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "session_life.hpp"
#include "session_rules.hpp"

namespace holdfast::detail {

/// The machine's randomness, or, for a simulation, that of a seed other than zero.
class SessionRandom {
 public:
  explicit SessionRandom(std::uint64_t seed);
  [[nodiscard]] std::uint64_t next();
  /// Between 1 - `spread` and 1.
  [[nodiscard]] double factor(double spread);

 private:
  std::optional<std::mt19937_64> seeded_;
};

/// What keeps the row of one session fresh. Its tasks share it with the session, as they may end
/// later where the executor is driven by hand.
class Heartbeat {
 public:
  /// A row that was written, and when that was asked for.
  struct Begun {
    std::string id;
    Entry row;
    TimePoint asked_at;
  };

  Heartbeat(Store& store, SessionFacts facts, SessionRandom random, Begun begun);

  /// Renews the row until the session is lost, or the task is stopped.
  [[nodiscard]] static Task<void> beat(std::shared_ptr<Heartbeat> self);
  /// Keeps an eye on the deadlines: a task of its own, as a renewal may hang.
  [[nodiscard]] static Task<void> watch(std::shared_ptr<Heartbeat> self);
  /// Erases the row, if it is there. Not while `beat` runs.
  [[nodiscard]] static Task<void> erase(std::shared_ptr<Heartbeat> self);
  [[nodiscard]] static Task<CommitOutcome> commit(std::shared_ptr<Heartbeat> self, Batch batch);

  [[nodiscard]] Store& store() const noexcept { return store_; }
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& name() const noexcept { return facts_.name; }
  [[nodiscard]] const std::string& key() const noexcept { return row_key_; }
  [[nodiscard]] SessionLife& life() noexcept { return life_; }

 private:
  /// A renewal whose outcome is not known.
  struct Unresolved {
    std::string value;
    TimePoint asked_at;
  };

  // These return false if there is to be another attempt soon.
  [[nodiscard]] Task<bool> renew_or_fail();
  [[nodiscard]] Task<bool> renew();
  /// Finds out by reading whether the last renewal happened.
  [[nodiscard]] Task<bool> resolve();
  [[nodiscard]] bool take(const CommitOutcome& outcome, Unresolved renewal);

  /// After a loss for want of an answer: the store may say more by now.
  [[nodiscard]] Task<void> ask_once_more();
  [[nodiscard]] Task<void> sleep_until(TimePoint until);
  [[nodiscard]] Duration retry_delay(int failures);

  Store& store_;
  const SessionFacts facts_;
  const std::string id_;
  const std::string row_key_;
  SessionLife life_;

  // Of `beat` alone.
  SessionRandom random_;
  Entry row_;  // As it was last seen or written.
  std::optional<Unresolved> unresolved_;
};

/// Writes the first row, under a new id.
[[nodiscard]] Task<Heartbeat::Begun> begin_session(Store& store, const SessionFacts& facts,
                                                   SessionRandom& random);

}  // namespace holdfast::detail
