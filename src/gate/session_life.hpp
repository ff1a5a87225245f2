// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/session.hpp>

namespace holdfast::detail {

/// What a process may believe of its own session: pure but for the clock that it looks at, so that
/// an answer which comes after a deadline never undoes what somebody was told meanwhile.
///
/// Thread-safe. Tokens are stopped by the calls that are not const, outside the lock.
class SessionLife {
 public:
  /// The first row was asked for at `asked_at`.
  SessionLife(Clock& clock, Duration ttl, TimePoint asked_at, Version version);

  /// The store has a renewal that was sent at `asked_at`, as `version`. Too late, it is of no use.
  void renewed(TimePoint asked_at, Version version);
  /// The row is known to have this version.
  void seen(Version version);
  /// Why there was no renewal, for the text of a loss.
  void failed(std::string why);
  /// The first loss stays, but one for want of an answer gives way to what the store says.
  void lose(SessionLoss loss, std::string why);
  /// Does what the passing of time brings about.
  void look_at_clock();
  /// When to look again; nothing once it is lost.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] SessionState state() const;
  [[nodiscard]] std::optional<SessionLoss> loss() const;
  /// Why it is lost, in words.
  [[nodiscard]] std::string why() const;
  /// When the last renewal that counts was asked for.
  [[nodiscard]] TimePoint asked_at() const;
  [[nodiscard]] TimePoint valid_until() const;
  [[nodiscard]] bool valid(TimePoint now) const;
  [[nodiscard]] Version version() const;
  [[nodiscard]] std::stop_token lost_token() const;
  [[nodiscard]] std::stop_token at_risk_token() const;

 private:
  [[nodiscard]] TimePoint soft_deadline() const noexcept;
  [[nodiscard]] TimePoint hard_deadline() const noexcept;
  void lose_if_late();
  [[nodiscard]] std::string why_unreachable() const;

  Clock& clock_;
  const Duration ttl_;
  mutable std::mutex mutex_;
  TimePoint asked_at_;
  Version version_;
  std::optional<SessionLoss> loss_;
  std::string why_lost_;
  std::string last_failure_;
  bool warned_ = false;  // Of the risk, since the last renewal.
  std::stop_source at_risk_;
  std::stop_source lost_;
};

}  // namespace holdfast::detail
