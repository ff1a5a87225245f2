// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {
class WatchedPrefix;
}

/// Wakes a task when something under a prefix has changed.
///
/// ```
/// Watch watch = store->watch("inbox/7/");
/// for (;;) {
///   const Page news = co_await store->scan("inbox/7/");
///   ...
///   co_await watch.changed();
/// }
/// ```
///
/// Promised: once a change has become durable, in whatever process, `changed()` returns, if it
/// became so after the watch was made or, later, after `changed()` last returned. So read after it
/// returns, and nothing is missed. Not promised: one return for each change (many may make one), or
/// a change for each return. For one task at a time.
class Watch {
 public:
  explicit Watch(std::shared_ptr<detail::WatchedPrefix> prefix) noexcept;
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch();

  /// Throws `Cancelled` when the task is stopped, `Closed` when the store is, and `StoreFailed`
  /// when its disk has failed.
  HOLDFAST_COROUTINE_WRAPPER [[nodiscard]] Task<void> changed();

 private:
  std::shared_ptr<detail::WatchedPrefix> prefix_;
};

}  // namespace holdfast
