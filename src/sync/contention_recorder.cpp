// SPDX-License-Identifier: Apache-2.0
#include "contention_recorder.hpp"

#include <utility>
#include <vector>

namespace holdfast::detail {

ContentionRecorder::WarningAlarm::WarningAlarm(ContentionRecorder& owner) noexcept
    : Timer([](Timer& timer) noexcept { static_cast<WarningAlarm&>(timer).recorder.warn(); }),
      recorder(owner) {}

ContentionRecorder::ContentionRecorder(std::string what, const SyncOptions& options)
    : what_(std::move(what)),
      clock_(*options.measure),
      held_long_(options.held_long),
      on_held_long_(options.on_held_long),
      alarm_(*this) {}

void ContentionRecorder::queued(Holder& holder) noexcept {
  const std::scoped_lock lock(mutex_);
  ++figures_.waits;
  holder.waited = true;
  holder.since = clock_.now();
}

void ContentionRecorder::granted(Holder& holder) noexcept {
  const std::scoped_lock lock(mutex_);
  const TimePoint now = clock_.now();
  ++figures_.acquisitions;
  if (holder.waited) {
    figures_.wait.add(now - holder.since);
  }
  holder.since = now;
  holder.holds = true;
  holder.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &holder;
  last_ = &holder;
  arm_for_next_warning();
}

void ContentionRecorder::released(Holder& holder) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!closed_) {
    const Duration held = clock_.now() - holder.since;
    figures_.hold.add(held);
    if (figures_.longest.holder.empty() || held > figures_.longest.held) {
      figures_.longest = {holder.owner.name, held};
    }
  }
  (holder.previous != nullptr ? holder.previous->next : first_) = holder.next;
  (holder.next != nullptr ? holder.next->previous : last_) = holder.previous;
}

void ContentionRecorder::gave_up(Ending why) noexcept {
  const std::scoped_lock lock(mutex_);
  figures_.timeouts += why == Ending::kTimedOut ? 1 : 0;
  figures_.cancellations += why == Ending::kCancelled ? 1 : 0;
  figures_.overflows += why == Ending::kQueueFull || why == Ending::kDropped ? 1 : 0;
}

void ContentionRecorder::close() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  clock_.disarm(alarm_);
}

Contention ContentionRecorder::snapshot() const {
  const std::scoped_lock lock(mutex_);
  Contention figures = figures_;
  if (first_ != nullptr) {
    figures.longest_current = {first_->owner.name, clock_.now() - first_->since};
  }
  return figures;
}

// The alarm is left to ring when its holder has gone: setting it anew would cost every release.
void ContentionRecorder::arm_for_next_warning() noexcept {
  if (!held_long_ || alarm_armed_ || closed_) {
    return;
  }
  for (const Holder* holder = first_; holder != nullptr; holder = holder->next) {
    if (!holder->warned) {
      alarm_armed_ = true;
      clock_.arm(alarm_, holder->since + *held_long_);
      return;
    }
  }
}

void ContentionRecorder::warn() noexcept {
  std::vector<HoldWarning> warnings;
  {
    const std::scoped_lock lock(mutex_);
    alarm_armed_ = false;
    const TimePoint now = clock_.now();
    for (Holder* holder = first_; holder != nullptr; holder = holder->next) {
      if (!holder->warned && now - holder->since >= *held_long_) {
        holder->warned = true;
        warnings.push_back({what_, holder->owner.name, now - holder->since});
      }
    }
    arm_for_next_warning();
  }
  for (const auto& warning : warnings) {
    on_held_long_(warning);
  }
}

}  // namespace holdfast::detail
