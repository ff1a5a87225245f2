// SPDX-License-Identifier: Apache-2.0
#include <holdfast/watch.hpp>

#include <utility>

#include "watch_list.hpp"

namespace holdfast {

namespace {

Task<void> until_changed(std::shared_ptr<detail::WatchedPrefix> prefix) {
  detail::WatchedPrefix::Changed changed(*prefix);
  co_await changed;
  changed.rethrow();
}

}  // namespace

Watch::Watch(std::shared_ptr<detail::WatchedPrefix> prefix) noexcept : prefix_(std::move(prefix)) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  std::swap(prefix_, other.prefix_);
  return *this;
}

Watch::~Watch() {
  if (prefix_) {
    prefix_->leave();
  }
}

Task<void> Watch::changed() { return until_changed(prefix_); }

}  // namespace holdfast
