// SPDX-License-Identifier: Apache-2.0
#include "timer_window.hpp"

#include <iterator>

namespace holdfast::detail {

void TimerWindow::add(const std::string& key) {
  if (complete_ || reading_ || key <= read_to_) {
    keys_.insert(key);
    shorten();
  }
}

void TimerWindow::remove(const std::string& key) { keys_.erase(key); }

/// Those that are far away are read again when their time comes.
void TimerWindow::shorten() {
  if (reading_ || keys_.size() <= 4 * kRead) {
    return;
  }
  keys_.erase(std::next(keys_.begin(), 2 * kRead), keys_.end());
  read_to_ = *keys_.rbegin();
  complete_ = false;
}

std::optional<std::string> TimerWindow::begin_reading() {
  if (complete_ || reading_ || !keys_.empty()) {
    return std::nullopt;
  }
  reading_ = true;
  return read_to_;
}

void TimerWindow::end_reading(const Page& page) {
  reading_ = false;
  complete_ = !page.more;
  for (const Entry& entry : page.entries) {
    keys_.insert(entry.key);
    read_to_ = entry.key;
  }
  if (!complete_) {
    keys_.erase(keys_.upper_bound(read_to_), keys_.end());
  }
}

std::optional<StoreTime> TimerWindow::next() const {
  std::optional<StoreTime> due;
  if (!keys_.empty()) {
    due = read_timer_key(*keys_.begin(), prefix_).due;
  }
  return due;
}

std::vector<std::string> TimerWindow::take_due(StoreTime now) {
  std::vector<std::string> due;
  while (!keys_.empty() && read_timer_key(*keys_.begin(), prefix_).due <= now) {
    due.push_back(std::move(keys_.extract(keys_.begin()).value()));
  }
  return due;
}

}  // namespace holdfast::detail
