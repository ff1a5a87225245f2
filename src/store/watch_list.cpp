// SPDX-License-Identifier: Apache-2.0
#include "watch_list.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::detail {

WatchedPrefix::WatchedPrefix(std::shared_ptr<WatchList> list, std::string prefix)
    : list_(std::move(list)), prefix_(std::move(prefix)) {}

void WatchedPrefix::leave() noexcept { list_->remove(*this); }

WatchedPrefix::Changed* WatchedPrefix::take_waiter() noexcept {
  return std::exchange(waiter_, nullptr);
}

void WatchedPrefix::notify() noexcept {
  Changed* waiter = nullptr;
  {
    const std::lock_guard lock(mutex_);
    waiter = take_waiter();
    changed_ = waiter == nullptr;
  }
  if (waiter != nullptr) {
    waiter->complete();
  }
}

void WatchedPrefix::end(std::exception_ptr reason) noexcept {
  Changed* waiter = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(reason);
    waiter = take_waiter();
    if (waiter != nullptr) {
      waiter->error_ = ended_;
    }
  }
  if (waiter != nullptr) {
    waiter->complete();
  }
}

void WatchedPrefix::Changed::begin() {
  {
    const std::lock_guard lock(watched_.mutex_);
    error_ = watched_.ended_;
    if (!error_ && !std::exchange(watched_.changed_, false)) {
      watched_.waiter_ = this;
      return;
    }
  }
  complete();
}

void WatchedPrefix::Changed::stop() noexcept {
  {
    const std::lock_guard lock(watched_.mutex_);
    if (watched_.waiter_ != this) {
      return;
    }
    watched_.waiter_ = nullptr;
    error_ = std::make_exception_ptr(
        Cancelled("the wait for a change under '" + watched_.prefix_ + "' was asked to stop"));
  }
  complete();
}

void WatchedPrefix::Changed::rethrow() const {
  if (error_) {
    std::rethrow_exception(error_);
  }
}

std::shared_ptr<WatchedPrefix> WatchList::add(std::string prefix) {
  auto watched = std::make_shared<WatchedPrefix>(shared_from_this(), std::move(prefix));
  const std::lock_guard lock(mutex_);
  if (ended_) {
    watched->end(ended_);
  }
  Watchers& watchers = by_prefix_[watched->prefix()];
  if (watchers.empty()) {
    ++prefixes_of_length_[watched->prefix().size()];
  }
  watchers.push_back(watched);
  ++count_;
  return watched;
}

void WatchList::remove(const WatchedPrefix& watched) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_prefix_.find(watched.prefix());
  Watchers& watchers = found->second;
  const auto one = std::find_if(watchers.begin(), watchers.end(), [&](const auto& watcher) {
    return watcher.lock().get() == &watched;
  });
  watchers.erase(one);
  --count_;
  if (watchers.empty()) {
    const auto length = prefixes_of_length_.find(watched.prefix().size());
    if (--length->second == 0) {
      prefixes_of_length_.erase(length);
    }
    by_prefix_.erase(found);
  }
}

namespace {

void add_all(const auto& watchers, auto& concerned) {
  std::ranges::transform(watchers, std::back_inserter(concerned),
                         [](const auto& watcher) { return watcher.lock(); });
}

}  // namespace

void WatchList::find_among_few(std::span<const std::string_view> keys, Concerned& concerned) const {
  for (const auto& [prefix, watchers] : by_prefix_) {
    const auto has_it = [&wanted = prefix](std::string_view key) {
      return key.starts_with(wanted);
    };
    if (std::ranges::any_of(keys, has_it)) {
      add_all(watchers, concerned);
    }
  }
}

void WatchList::find_among_many(std::span<const std::string_view> keys,
                                Concerned& concerned) const {
  for (const auto& [length, prefixes] : prefixes_of_length_) {
    const Watchers* before = nullptr;
    for (const std::string_view key : keys) {
      if (length > key.size()) {
        continue;
      }
      const auto found = by_prefix_.find(key.substr(0, length));
      if (found == by_prefix_.end() || &found->second == before) {
        continue;
      }
      before = &found->second;
      add_all(found->second, concerned);
    }
  }
}

void WatchList::notify(std::span<const std::string_view> keys) {
  Concerned concerned;
  {
    const std::lock_guard lock(mutex_);
    if (by_prefix_.size() <= kFewPrefixes) {
      find_among_few(keys, concerned);
    } else {
      find_among_many(keys, concerned);
    }
  }
  for (const auto& watched : concerned) {
    if (watched) {
      watched->notify();
    }
  }
}

WatchList::Concerned WatchList::all() {
  Concerned found;
  for (const auto& [prefix, watchers] : by_prefix_) {
    for (const auto& watcher : watchers) {
      if (auto watched = watcher.lock()) {
        found.push_back(std::move(watched));
      }
    }
  }
  return found;
}

void WatchList::notify_all() {
  std::vector<std::shared_ptr<WatchedPrefix>> everyone;
  {
    const std::lock_guard lock(mutex_);
    everyone = all();
  }
  for (const auto& watched : everyone) {
    watched->notify();
  }
}

void WatchList::end(const std::exception_ptr& reason) noexcept {
  std::vector<std::shared_ptr<WatchedPrefix>> everyone;
  {
    const std::lock_guard lock(mutex_);
    ended_ = reason;
    everyone = all();
  }
  for (const auto& watched : everyone) {
    watched->end(reason);
  }
}

}  // namespace holdfast::detail
