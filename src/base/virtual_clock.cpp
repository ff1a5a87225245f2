// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "timer_queue.hpp"

namespace holdfast {

VirtualClock::VirtualClock() : queue_(std::make_unique<detail::TimerQueue>()) {}
VirtualClock::~VirtualClock() = default;

TimePoint VirtualClock::now() const noexcept { return queue_->virtual_now(); }
void VirtualClock::arm(Timer& timer, TimePoint at) { queue_->arm(timer, at); }
void VirtualClock::disarm(Timer& timer) noexcept { queue_->disarm(timer); }
bool VirtualClock::try_disarm(Timer& timer) noexcept { return queue_->try_disarm(timer); }
std::size_t VirtualClock::armed_count() const noexcept { return queue_->size(); }

std::optional<TimePoint> VirtualClock::next_due() const noexcept { return queue_->next_due(); }

void VirtualClock::advance(Duration by) {
  if (by < Duration::zero()) {
    throw InvalidArgument("VirtualClock::advance: " + std::to_string(by.count()) +
                          " ns is negative; time only goes forward");
  }
  const TimePoint target = now() + by;
  while (queue_->fire_next(target)) {
  }
  queue_->set_virtual_now(target);
}

bool VirtualClock::advance_to_next() {
  const auto due = queue_->next_due();
  if (!due) {
    return false;
  }
  while (queue_->fire_next(*due)) {
  }
  return true;
}

}  // namespace holdfast
