// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "gate_parties.hpp"

namespace holdfast::detail {

/// Waiters who will be wanted in their order. Of a long queue nothing is in the processor's caches
/// any more: what belongs to one is fetched ahead while those before it are taken.
class WaitersAhead {
 public:
  [[nodiscard]] bool empty() const noexcept { return waiters_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return waiters_.size(); }
  /// There is one.
  [[nodiscard]] const std::string& last_key() const noexcept { return waiters_.back().key; }

  void push(KeyedWaiter waiter);
  /// The first one. There is one.
  [[nodiscard]] KeyedWaiter pop();
  void clear() noexcept;

 private:
  std::deque<KeyedWaiter> waiters_;
};

}  // namespace holdfast::detail
