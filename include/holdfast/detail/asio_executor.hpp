// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>

#include <holdfast/clock.hpp>
#include <holdfast/executor.hpp>

namespace holdfast {

namespace detail {

/// Blocks of one size, kept for the next post. Thread-safe.
class AsioBlocks {
 public:
  AsioBlocks() = default;
  AsioBlocks(const AsioBlocks&) = delete;
  AsioBlocks& operator=(const AsioBlocks&) = delete;
  ~AsioBlocks() {
    while (first_ != nullptr) {
      ::operator delete(std::exchange(first_, first_->next));
    }
  }

  void* allocate(std::size_t size) {
    if (size <= kSize) {
      const std::scoped_lock lock(mutex_);
      if (first_ != nullptr) {
        return std::exchange(first_, first_->next);
      }
    }
    return ::operator new(size <= kSize ? kSize : size);
  }
  void deallocate(void* block, std::size_t size) noexcept {
    if (size > kSize) {
      ::operator delete(block);
      return;
    }
    const std::scoped_lock lock(mutex_);
    first_ = new (block) Block{first_};
  }

 private:
  static constexpr std::size_t kSize = 64;
  struct Block {
    Block* next;
  };
  std::mutex mutex_;
  Block* first_ = nullptr;
};

template <typename T>
struct AsioBlockAllocator {
  using value_type = T;

  explicit AsioBlockAllocator(AsioBlocks* from) noexcept : blocks(from) {}
  template <typename U>  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  AsioBlockAllocator(const AsioBlockAllocator<U>& other) noexcept : blocks(other.blocks) {}

  T* allocate(std::size_t count) { return static_cast<T*>(blocks->allocate(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept {
    blocks->deallocate(block, count * sizeof(T));
  }
  template <typename U>
  bool operator==(const AsioBlockAllocator<U>& other) const noexcept {
    return blocks == other.blocks;
  }

  AsioBlocks* blocks;
};

}  // namespace detail

/// Runs tasks on an Asio executor: on the threads that run its `io_context`, among its handlers.
///
/// While it has tasks the `io_context` has work, so that `run()` goes on until they have ended. It
/// cannot run them itself: let `run()` return before this is destroyed; a task that is left then
/// ends the program, named. `sync_wait` needs another thread that runs the `io_context`.
///
/// Posting to an `io_context` allocates nothing once it has warmed up; other executors allocate as
/// they like. Thread-safe.
class AsioExecutor final : public Executor {
 public:
  /// With a clock of its own.
  explicit AsioExecutor(boost::asio::io_context& context)
      : AsioExecutor(boost::asio::any_io_executor(context.get_executor())) {}
  explicit AsioExecutor(boost::asio::any_io_executor executor)
      : AsioExecutor(std::move(executor), std::make_unique<SystemClock>(), nullptr) {}
  /// The clock must outlive this.
  AsioExecutor(boost::asio::io_context& context, Clock& clock)
      : AsioExecutor(boost::asio::any_io_executor(context.get_executor()), clock) {}
  AsioExecutor(boost::asio::any_io_executor executor, Clock& clock)
      : AsioExecutor(std::move(executor), nullptr, &clock) {}
  ~AsioExecutor() override {
    stop_tasks();
    check_no_tasks();
  }

  // From here on the work may run, and end the last task: only copies are touched.
  void post(Work& work) noexcept override {
    const RunWork run{&work};
    if (!inside_) {
      const boost::asio::any_io_executor executor = executor_never_blocking_;
      executor.execute(run);
    } else if (inside_->running_in_this_thread()) {
      const auto executor = *inside_;  // Asio keeps memory for its own threads.
      executor.execute(run);
    } else {
      const auto executor = *outside_;
      executor.execute(run);
    }
  }
  [[nodiscard]] Clock& clock() noexcept override { return clock_; }

  [[nodiscard]] boost::asio::any_io_executor get_executor() const noexcept { return executor_; }

 private:
  struct RunWork {
    Work* work;
    void operator()() const noexcept { work->run(*work); }
  };
  using Inside = boost::asio::io_context::executor_type;
  using Outside = decltype(boost::asio::require(
      std::declval<Inside>(), boost::asio::execution::blocking.never,
      boost::asio::execution::allocator(std::declval<const detail::AsioBlockAllocator<void>&>())));

  AsioExecutor(boost::asio::any_io_executor executor, std::unique_ptr<SystemClock> own_clock,
               Clock* clock)
      : own_clock_(std::move(own_clock)),
        clock_(clock != nullptr ? *clock : *own_clock_),
        executor_(std::move(executor)),
        executor_never_blocking_(
            boost::asio::require(executor_, boost::asio::execution::blocking.never)) {
    if (const auto* io_context = executor_.target<Inside>(); io_context != nullptr) {
      inside_.emplace(boost::asio::require(*io_context, boost::asio::execution::blocking.never));
      outside_.emplace(boost::asio::require(
          *inside_, boost::asio::execution::allocator(detail::AsioBlockAllocator<void>(&blocks_))));
    }
  }

  void tasks_began() noexcept override { work_.emplace(executor_); }
  void tasks_ended() noexcept override { work_.reset(); }

  std::unique_ptr<SystemClock> own_clock_;
  Clock& clock_;
  detail::AsioBlocks blocks_;
  boost::asio::any_io_executor executor_;
  boost::asio::any_io_executor executor_never_blocking_;
  std::optional<Inside> inside_;  // These two only for an io_context, from its threads and others.
  std::optional<Outside> outside_;
  std::optional<boost::asio::executor_work_guard<boost::asio::any_io_executor>> work_;
};

}  // namespace holdfast
