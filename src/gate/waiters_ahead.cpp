// SPDX-License-Identifier: Apache-2.0
#include "waiters_ahead.hpp"

#include <utility>

#include <holdfast/detail/check.hpp>

#include "base/fetch_ahead.hpp"

namespace holdfast::detail {

namespace {

/// Of one that comes so much later, its place here is fetched; when it is nearer, what that points
/// to, and so on.
constexpr std::size_t kPlaceFetched = 12;
constexpr std::size_t kRequestFetched = 8;
constexpr std::size_t kPartsFetched = 6;
constexpr std::size_t kTextsFetched = 4;
constexpr std::size_t kActorFetched = 2;

void fetch_parts_ahead(const GateRequest& request) noexcept {
  fetch_ahead(request.asker.get(), sizeof(GateAsker));
  if (request.notice) {
    fetch_ahead(request.notice->key.data());
    fetch_ahead(request.notice->value.data());
  }
}

void fetch_texts_ahead(const GateAsker& asker) noexcept {
  fetch_ahead(asker.holder.data());
  fetch_ahead(asker.owner.data());
  fetch_ahead(asker.actors.data());
}

void fetch_actor_ahead(const GateAsker& asker) noexcept {
  if (!asker.actors.empty()) {
    fetch_ahead(asker.actors.front().data());
  }
}

}  // namespace

void WaitersAhead::push(KeyedWaiter waiter) { waiters_.push_back(std::move(waiter)); }

KeyedWaiter WaitersAhead::pop() {
  HOLDFAST_CHECK(!waiters_.empty(), "a waiter was taken that is not there");
  if (waiters_.size() > kPlaceFetched) {
    fetch_ahead(&waiters_[kPlaceFetched]);
    const KeyedWaiter& later = waiters_[kRequestFetched];
    fetch_ahead(later.waiter.request.get(), sizeof(GateRequest));
    fetch_ahead(later.key.data());
    fetch_parts_ahead(*waiters_[kPartsFetched].waiter.request);
    fetch_texts_ahead(*waiters_[kTextsFetched].waiter.request->asker);
    fetch_actor_ahead(*waiters_[kActorFetched].waiter.request->asker);
  }
  KeyedWaiter first = std::move(waiters_.front());
  waiters_.pop_front();
  return first;
}

void WaitersAhead::clear() noexcept { waiters_.clear(); }

}  // namespace holdfast::detail
