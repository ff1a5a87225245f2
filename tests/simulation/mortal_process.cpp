// SPDX-License-Identifier: Apache-2.0
#include "mortal_process.hpp"

#include <chrono>
#include <utility>

#include "gathering.hpp"
#include "play.hpp"
#include "timetable.hpp"

namespace holdfast::testing {

using namespace std::chrono_literals;

MortalProcess::MortalProcess(Clock& clock, std::unique_ptr<MortalStore> opened, Terms terms)
    : store(std::move(opened)), executor(clock, terms.seed), terms_(std::move(terms)) {
  beginning_.emplace(spawn(executor, begin()));
}

Task<void> MortalProcess::begin() {
  try {
    const SessionOptions options{
        .ttl = 30s, .name = "simulated", .executor = &executor, .seed = terms_.seed};
    session_ = co_await Session::open(*store, options);
    engine.emplace(*session_, EngineOptions{.executor = &executor,
                                            .queue = terms_.queue,
                                            .watchdog_time = 0s,
                                            .warn = [](const std::string& /*text*/) {},
                                            .seed = terms_.seed,
                                            .wall_clock = terms_.calendar});
    for (int limit = 0; limit < kPlayLimits; ++limit) {
      engine->add(play_workflow(static_cast<PlayLimit>(limit)));
    }
    engine->add(gather_workflow());
    engine->add(beat_workflow(false));
    engine->add(beat_workflow(true));
    if (terms_.drives) {
      co_await engine->begin();
    }
    is_up_ = true;
  } catch (const Error&) {
    has_failed_ = true;
  }
}

Task<void> MortalProcess::end() {
  try {
    co_await engine->stop(5s);
    co_await session_->close();
  } catch (const Error&) {
    // Others take over when the session has expired.
  }
  has_failed_ = true;
}

void MortalProcess::stall(TimePoint until, Duration unaware) {
  stalled_until = until;
  unaware_until = until + unaware;
  was_stalled_ = true;
}

void MortalProcess::stop() {
  is_stopping_ = true;
  ending_.emplace(spawn(executor, end()));
}

bool MortalProcess::is_over(TimePoint now) const {
  const bool is_lost = session_ != nullptr && session_->state() == SessionState::kLost;
  return has_failed_ || store->is_dead() || (is_lost && unaware_until <= now);
}

bool MortalProcess::run_one() {
  process_under_way = this;
  return executor.run_one();
}

std::size_t MortalProcess::drain() {
  process_under_way = this;
  return executor.drain();
}

void MortalProcess::kill() {
  store->die();
  for (std::optional<Spawned<void>>* task : {&beginning_, &ending_}) {
    if (*task) {
      (*task)->request_stop();
    }
  }
  drain();
  engine.reset();
  drain();
  session_.reset();
  drain();
  is_up_ = false;
}

}  // namespace holdfast::testing
