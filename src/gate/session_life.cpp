// SPDX-License-Identifier: Apache-2.0
#include "session_life.hpp"

#include <algorithm>
#include <utility>

#include <holdfast/lease.hpp>

namespace holdfast::detail {

SessionLife::SessionLife(Clock& clock, Duration ttl, TimePoint asked_at, Version version)
    : clock_(clock), ttl_(ttl), asked_at_(asked_at), version_(version) {}

TimePoint SessionLife::soft_deadline() const noexcept { return asked_at_ + (ttl_ - ttl_ / 3); }

TimePoint SessionLife::hard_deadline() const noexcept {
  return asked_at_ + (ttl_ - ttl_ / kLeaseDriftParts);
}

void SessionLife::lose_if_late() {
  if (loss_ || clock_.now() < hard_deadline()) {
    return;
  }
  loss_ = SessionLoss::kUnreachable;
  why_lost_ = why_unreachable();
}

std::string SessionLife::why_unreachable() const {
  std::string why("no renewal was acknowledged in time");
  if (!last_failure_.empty()) {
    why.append("; the last one failed: ").append(last_failure_);
  }
  return why;
}

void SessionLife::renewed(TimePoint asked_at, Version version) {
  {
    const std::lock_guard lock(mutex_);
    version_ = std::max(version_, version);
    lose_if_late();
    if (!loss_) {
      asked_at_ = std::max(asked_at_, asked_at);
      last_failure_.clear();
      if (warned_ && clock_.now() < soft_deadline()) {
        warned_ = false;
        at_risk_ = std::stop_source();
      }
    }
  }
  look_at_clock();
}

void SessionLife::seen(Version version) {
  const std::lock_guard lock(mutex_);
  version_ = std::max(version_, version);
}

void SessionLife::failed(std::string why) {
  const std::lock_guard lock(mutex_);
  last_failure_ = std::move(why);
}

void SessionLife::lose(SessionLoss loss, std::string why) {
  {
    const std::lock_guard lock(mutex_);
    lose_if_late();
    if (!loss_ || (loss_ == SessionLoss::kUnreachable && loss == SessionLoss::kDeposed)) {
      loss_ = loss;
      why_lost_ = std::move(why);
    }
  }
  look_at_clock();
}

void SessionLife::look_at_clock() {
  std::optional<std::stop_source> at_risk;
  std::optional<std::stop_source> lost;
  {
    const std::lock_guard lock(mutex_);
    lose_if_late();
    if (loss_) {
      lost = lost_;
    }
    if (loss_ || clock_.now() >= soft_deadline()) {
      warned_ = true;
      at_risk = at_risk_;
    }
  }
  if (lost) {
    lost->request_stop();
  }
  if (at_risk) {
    at_risk->request_stop();
  }
}

std::optional<TimePoint> SessionLife::next_deadline() const {
  const std::lock_guard lock(mutex_);
  if (loss_) {
    return std::nullopt;
  }
  return warned_ ? hard_deadline() : soft_deadline();
}

SessionState SessionLife::state() const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = clock_.now();
  if (loss_ || now >= hard_deadline()) {
    return SessionState::kLost;
  }
  return now >= soft_deadline() ? SessionState::kAtRisk : SessionState::kLive;
}

std::optional<SessionLoss> SessionLife::loss() const {
  const std::lock_guard lock(mutex_);
  if (!loss_ && clock_.now() >= hard_deadline()) {
    return SessionLoss::kUnreachable;
  }
  return loss_;
}

std::string SessionLife::why() const {
  const std::lock_guard lock(mutex_);
  return loss_ ? why_lost_ : why_unreachable();
}

TimePoint SessionLife::asked_at() const {
  const std::lock_guard lock(mutex_);
  return asked_at_;
}

TimePoint SessionLife::valid_until() const {
  const std::lock_guard lock(mutex_);
  return hard_deadline();
}

bool SessionLife::valid(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return !loss_ && now < hard_deadline();
}

Version SessionLife::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::stop_token SessionLife::lost_token() const {
  const std::lock_guard lock(mutex_);
  return lost_.get_token();
}

std::stop_token SessionLife::at_risk_token() const {
  const std::lock_guard lock(mutex_);
  return at_risk_.get_token();
}

}  // namespace holdfast::detail
