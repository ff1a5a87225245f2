// SPDX-License-Identifier: Apache-2.0
#include "session_heartbeat.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <holdfast/this_task.hpp>

#include "store/lost_sight.hpp"

namespace holdfast::detail {

namespace {

/// A renewal each third of the ttl, a little earlier at random: sessions that were opened together
/// shall not renew together for ever. Only a little: what is asked for so long after the last
/// renewal has its soft deadline behind the hard one of that, at which `watch` looks at the latest.
constexpr int kBeatParts = 3;
constexpr double kBeatSpread = 0.02;
/// One that failed is repeated soon, then less often.
constexpr int kRetryPartsFirst = 60;
constexpr int kRetryPartsLast = 12;
constexpr double kRetrySpread = 0.5;
constexpr Duration kRetryMin = std::chrono::milliseconds(1);
constexpr int kWriteAttemptsMax = 10;

constexpr const char* kGone = "its row in the store is gone: it was declared dead";
constexpr const char* kExpired = "its row in the store has expired";

Duration scaled(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

SessionRandom::SessionRandom(std::uint64_t seed) {
  if (seed != 0) {
    seeded_.emplace(seed);
  }
}

std::uint64_t SessionRandom::next() {
  if (seeded_) {
    return (*seeded_)();
  }
  std::random_device device;
  return std::uniform_int_distribution<std::uint64_t>()(device);
}

double SessionRandom::factor(double spread) {
  constexpr double kMax = 18446744073709551616.0;  // 2^64
  return 1 - spread * (static_cast<double>(next()) / kMax);
}

Heartbeat::Heartbeat(Store& store, SessionFacts facts, SessionRandom random, Begun begun)
    : store_(store),
      facts_(std::move(facts)),
      id_(std::move(begun.id)),
      row_key_(begun.row.key),
      life_(store.clock(), facts_.ttl, begun.asked_at, begun.row.version),
      random_(std::move(random)),
      row_(std::move(begun.row)) {}

Task<void> Heartbeat::beat(std::shared_ptr<Heartbeat> self) {
  SessionLife& life = self->life_;
  const Duration interval = self->facts_.ttl / kBeatParts;
  try {
    TimePoint next = life.asked_at() + scaled(interval, self->random_.factor(kBeatSpread));
    int failures = 0;
    while (life.state() != SessionState::kLost) {
      co_await self->sleep_until(next);
      const bool renewed = co_await self->renew_or_fail();
      if (renewed) {
        failures = 0;
        next = life.asked_at() + scaled(interval, self->random_.factor(kBeatSpread));
      } else {
        next = self->store_.clock().now() + self->retry_delay(failures++);
      }
    }
    co_await self->ask_once_more();
  } catch (const Cancelled&) {
    // The session is closed, or its executor ends.
  }
}

Task<void> Heartbeat::watch(std::shared_ptr<Heartbeat> self) {
  try {
    for (;;) {
      const std::optional<TimePoint> deadline = self->life_.next_deadline();
      if (!deadline) {
        break;
      }
      co_await self->sleep_until(*deadline);
      self->life_.look_at_clock();
    }
  } catch (const Cancelled&) {
    // As above.
  }
}

Task<void> Heartbeat::sleep_until(TimePoint until) {
  // By the store's clock, on which the session is counted; the executor may have one of its own.
  const Duration left = until - store_.clock().now();
  co_await this_task::sleep_for(std::max(left, Duration::zero()));
}

Duration Heartbeat::retry_delay(int failures) {
  const Duration longest = facts_.ttl / kRetryPartsLast;
  Duration delay = facts_.ttl / kRetryPartsFirst;
  for (int i = 0; i < failures && delay < longest; ++i) {
    delay *= 2;
  }
  return std::max(kRetryMin, scaled(std::min(delay, longest), random_.factor(kRetrySpread)));
}

Task<bool> Heartbeat::renew_or_fail() {
  bool renewed = false;
  if (life_.state() == SessionState::kLost) {
    co_return renewed;  // Also to the store it shall not look alive.
  }
  try {
    renewed = co_await renew();
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& error) {
    // Whatever it is, the holder works on: there is time for more attempts, and a deadline.
    life_.failed(error.what());
  }
  co_return renewed;
}

Task<bool> Heartbeat::renew() {
  if (unresolved_) {
    const bool settled = co_await resolve();
    if (settled) {
      co_return true;
    }
  }
  const TimePoint asked_at = store_.clock().now();
  const StoreTime now = co_await store_.time();
  std::optional<std::string> value = renewed_session_row(row_, now);
  if (!value) {
    life_.lose(SessionLoss::kDeposed, kExpired);
    co_return true;
  }
  Batch batch;
  batch.require_version(row_key_, row_.version).put(row_key_, *value);
  unresolved_ = Unresolved{*std::move(value), asked_at};
  const CommitOutcome outcome = co_await store_.commit(std::move(batch));
  co_return take(outcome, *std::exchange(unresolved_, std::nullopt));
}

bool Heartbeat::take(const CommitOutcome& outcome, Unresolved renewal) {
  if (const Committed* committed = outcome.committed()) {
    row_.value = std::move(renewal.value);
    row_.version = committed->version;
    life_.renewed(renewal.asked_at, row_.version);
    return true;
  }
  const std::optional<Entry>& current = outcome.conflict()->current;
  if (!current) {
    life_.lose(SessionLoss::kDeposed, kGone);
    return true;
  }
  // The row is written by this session alone, so it is a renewal that was given up for lost and
  // came later than this process looked. Renew that one.
  row_ = *current;
  life_.seen(row_.version);
  return false;
}

Task<bool> Heartbeat::resolve() {
  std::optional<Entry> row = co_await store_.get(row_key_);
  const Unresolved renewal = *std::exchange(unresolved_, std::nullopt);
  if (!row) {
    life_.lose(SessionLoss::kDeposed, kGone);
    co_return true;
  }
  row_ = *std::move(row);
  life_.seen(row_.version);
  if (row_.value != renewal.value) {
    co_return false;
  }
  life_.renewed(renewal.asked_at, row_.version);
  co_return true;
}

Task<void> Heartbeat::ask_once_more() {
  if (life_.loss() != SessionLoss::kUnreachable) {
    co_return;
  }
  // Lost in any case, but it matters to people whether the store was out of reach, or this process
  // was stopped for too long.
  try {
    const std::optional<Entry> row = co_await store_.get(row_key_);
    const StoreTime now = co_await store_.time();
    const Liveness found = liveness(row, now);
    if (found != Liveness::kLive) {
      life_.lose(SessionLoss::kDeposed, found == Liveness::kGone ? kGone : kExpired);
    }
  } catch (const Error&) {
    // Then it stays unknown.
  }
}

Task<void> Heartbeat::erase(std::shared_ptr<Heartbeat> self) {
  for (int attempt = 0; attempt < kWriteAttemptsMax; ++attempt) {
    const std::optional<Entry> row = co_await self->store_.get(self->row_key_);
    if (!row) {
      co_return;
    }
    Batch batch;
    bury(batch, *row);
    const auto outcome = co_await commit_or_lose_sight(self->store_, std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      co_return;
    }
  }
  throw OutcomeUnknown("the row of the session " + self->id_ +
                       " could not be erased: the store fails again and again");
}

Task<CommitOutcome> Heartbeat::commit(std::shared_ptr<Heartbeat> self, Batch batch) {
  Version version = self->life_.version();
  for (;;) {
    Batch guarded;
    guarded.guard(self->row_key_, version).append(batch);
    CommitOutcome outcome = co_await self->store_.commit(std::move(guarded));
    const Fenced* fenced = outcome.fenced();
    if (fenced == nullptr || fenced->key != self->row_key_ || !fenced->current) {
      co_return outcome;
    }
    // There is a row, so the session lives: it was renewed meanwhile.
    version = fenced->current->version;
  }
}

Task<Heartbeat::Begun> begin_session(Store& store, const SessionFacts& facts,
                                     SessionRandom& random) {
  for (int attempt = 0; attempt < kWriteAttemptsMax; ++attempt) {
    Heartbeat::Begun begun;
    begun.asked_at = store.clock().now();
    const StoreTime now = co_await store.time();
    const std::uint64_t high = random.next();
    begun.id = session_id(now, high, static_cast<std::uint16_t>(random.next()));
    begun.row.key = session_key(begun.id);
    begun.row.value = session_row(facts, now);
    Batch batch;
    batch.require_absent(begun.row.key).put(begun.row.key, begun.row.value);
    const auto outcome = co_await commit_or_lose_sight(store, std::move(batch));
    if (outcome && outcome->committed() != nullptr) {
      begun.row.version = outcome->committed()->version;
      co_return begun;
    }
    if (!outcome) {
      const std::optional<Entry> row = co_await store.get(begun.row.key);
      if (row && row->value == begun.row.value) {
        begun.row.version = row->version;
        co_return begun;
      }
    }
    // Not written, or someone with the same seed has the id: the next one.
  }
  throw OutcomeUnknown("no session could be opened: the store fails again and again");
}

}  // namespace holdfast::detail
