// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>

namespace holdfast::detail {

/// An executor that counts as work for as long as it is kept. (Boost 1.81's `executor_work_guard`
/// does not compile for a strand on an `any_io_executor`.)
template <typename Executor>
using AsioWork = std::decay_t<decltype(boost::asio::prefer(
    std::declval<const Executor&>(), boost::asio::execution::outstanding_work.tracked))>;

template <typename Executor>
[[nodiscard]] AsioWork<Executor> asio_work(const Executor& executor) {
  return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
}

/// Something that will be posted to an execution context when it is over, unless the context goes
/// first.
class AsioPending {
 public:
  AsioPending(const AsioPending&) = delete;
  AsioPending& operator=(const AsioPending&) = delete;

 protected:
  AsioPending() = default;
  virtual ~AsioPending() = default;

 private:
  friend class AsioPendingList;
  /// The context is being destroyed: nothing may be posted to it, and handlers must go now.
  virtual void context_gone() noexcept = 0;

  AsioPending* previous_ = nullptr;
  AsioPending* next_ = nullptr;
  bool listed_ = false;
  bool settled_ = false;
};

/// All that is pending on one execution context. What ends late still finds the list, not the
/// context: hence shared.
class AsioPendingList {
 public:
  template <typename Executor>
  static std::shared_ptr<AsioPendingList> of(const Executor& executor) {
    return boost::asio::use_service<Service>(
               boost::asio::query(executor, boost::asio::execution::context))
        .list;
  }

  void add(AsioPending& pending) noexcept {
    const std::scoped_lock lock(mutex_);
    pending.listed_ = true;
    pending.next_ = first_;
    if (first_ != nullptr) {
      first_->previous_ = &pending;
    }
    first_ = &pending;
  }

  /// It is over: calls `post`, during which the context cannot go; or, if it has gone, tells the
  /// one who sees to that. After this `pending` may be gone.
  template <typename Post>
  void settle(AsioPending& pending, const Post& post) noexcept {
    const std::scoped_lock lock(mutex_);
    if (closed_ && pending.listed_) {
      pending.settled_ = true;
      settled_changed_.notify_all();
      return;
    }
    if (pending.listed_) {
      remove(pending);
    }
    post();
  }

  /// After the list was closed: returns when `pending` is over.
  void wait_until_settled(const AsioPending& pending) noexcept {
    std::unique_lock lock(mutex_);
    settled_changed_.wait(lock, [&] { return pending.settled_; });
  }

 private:
  struct Service final : boost::asio::execution_context::service {
    static inline boost::asio::execution_context::id id;
    explicit Service(boost::asio::execution_context& context)
        : boost::asio::execution_context::service(context) {}
    void shutdown() override { list->close(); }

    std::shared_ptr<AsioPendingList> list = std::make_shared<AsioPendingList>();
  };

  void remove(AsioPending& pending) noexcept {
    pending.listed_ = false;
    (pending.previous_ == nullptr ? first_ : pending.previous_->next_) = pending.next_;
    if (pending.next_ != nullptr) {
      pending.next_->previous_ = pending.previous_;
    }
  }

  void close() noexcept {
    AsioPending* first = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
      first = std::exchange(first_, nullptr);
    }
    while (first != nullptr) {
      std::exchange(first, first->next_)->context_gone();
    }
  }

  std::mutex mutex_;
  std::condition_variable settled_changed_;
  AsioPending* first_ = nullptr;
  bool closed_ = false;
};

}  // namespace holdfast::detail
