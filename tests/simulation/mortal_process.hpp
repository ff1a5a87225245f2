// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>

#include "mortal_store.hpp"

namespace holdfast::testing {

class MortalProcess;

/// Whose code it is that runs.
inline const MortalProcess* process_under_way = nullptr;

/// A process of one thread with an engine, which can end anywhere.
class MortalProcess {
 public:
  struct Terms {
    std::uint64_t seed = 1;
    std::string queue;
    bool drives = true;  ///< False: it is a client only.
    const WallClock* calendar = nullptr;
  };
  MortalProcess(Clock& clock, std::unique_ptr<MortalStore> opened, Terms terms);
  MortalProcess(const MortalProcess&) = delete;
  MortalProcess& operator=(const MortalProcess&) = delete;
  ~MortalProcess() { kill(); }

  /// False: there is nothing to do.
  bool run_one();
  /// How much there was to do.
  std::size_t drain();
  /// As kill -9. Tasks of others on its executor must have been asked to stop.
  void kill();
  /// It does nothing until then, and for a while more does not know what happened meanwhile.
  void stall(TimePoint until, Duration unaware);
  /// Hands over, and ends.
  void stop();

  /// By which the store knows its session; empty: it has none yet.
  [[nodiscard]] std::string session_key() const {
    return session_ == nullptr ? std::string() : session_->key();
  }
  [[nodiscard]] const Terms& terms() const noexcept { return terms_; }
  /// It has a session and takes requests.
  [[nodiscard]] bool is_up() const noexcept { return is_up_ && !is_stopping_; }
  [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }
  /// It is of no use any more: it could not begin, has ended, or has lost its session, which it may
  /// not know for a while.
  [[nodiscard]] bool is_over(TimePoint now) const;
  /// If it has runs, nobody else has them.
  [[nodiscard]] bool is_reliable() const {
    return !was_stalled_ && !store->is_dead() && session_->state() != SessionState::kLost;
  }
  [[nodiscard]] bool is_stalled(TimePoint now) const noexcept { return now < stalled_until; }

  TimePoint stalled_until{};
  TimePoint unaware_until{};
  const std::unique_ptr<MortalStore> store;
  SeededExecutor executor;
  std::optional<Engine> engine;

 private:
  [[nodiscard]] Task<void> begin();
  [[nodiscard]] Task<void> end();

  const Terms terms_;
  std::unique_ptr<Session> session_;
  std::optional<Spawned<void>> beginning_;
  std::optional<Spawned<void>> ending_;
  bool is_up_ = false;
  bool is_stopping_ = false;
  bool has_failed_ = false;
  bool was_stalled_ = false;
};

}  // namespace holdfast::testing
