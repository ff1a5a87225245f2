// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/post.hpp>

#include <holdfast/acquire.hpp>
#include <holdfast/detail/asio_pending.hpp>
#include <holdfast/detail/keyed_turnstiles.hpp>
#include <holdfast/detail/turnstile.hpp>
#include <holdfast/hold.hpp>

namespace holdfast::detail {

/// How `AsioWait` gets at a turnstile: known from the start, or found by its key.
struct AsioTicket {
  AcquireRequest request;

  AcquireRequest enter() const noexcept { return request; }
  void leave() const noexcept {}
};

template <typename Key, typename Hash>
struct AsioKeyedTicket {
  KeyedRequest<Key, Hash> request;
  void* entry = nullptr;

  AcquireRequest enter() {
    const auto visit = request.enter();
    entry = visit.entry;
    return visit.request;
  }
  void leave() noexcept {
    if (entry != nullptr) {
      request.turnstiles->left(std::exchange(entry, nullptr));
    }
  }
};

/// Memory for one posted function at a time, so that ending a wait allocates nothing.
class AsioPostMemory {
 public:
  void* allocate(std::size_t size) {
    if (size > bytes_.size() || used_) {
      return ::operator new(size);
    }
    used_ = true;
    return bytes_.data();
  }
  /// Only compares addresses if the block is not ours: by then this may be gone.
  static void deallocate(AsioPostMemory* memory, void* block) noexcept {
    if (block == memory->bytes_.data()) {
      memory->used_ = false;
    } else {
      ::operator delete(block);
    }
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 128> bytes_;
  bool used_ = false;
};

template <typename T>
struct AsioPostAllocator {
  using value_type = T;

  explicit AsioPostAllocator(AsioPostMemory* post_memory) noexcept : memory(post_memory) {}
  template <typename U>  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  AsioPostAllocator(const AsioPostAllocator<U>& other) noexcept : memory(other.memory) {}

  T* allocate(std::size_t count) { return static_cast<T*>(memory->allocate(count * sizeof(T))); }
  void deallocate(T* block, std::size_t /*count*/) noexcept {
    AsioPostMemory::deallocate(memory, block);
  }
  template <typename U>
  bool operator==(const AsioPostAllocator<U>& other) const noexcept {
    return memory == other.memory;
  }

  AsioPostMemory* memory;
};

/// A waiter whose end is told to a completion handler.
///
/// It consists of parts: the wait itself, whose end is posted, and the timer, if there is one. The
/// last part to be over calls the handler, on its executor; a part that is destroyed instead, since
/// its execution context goes, destroys everything and gives back what was granted.
template <typename Ticket, typename Handler>
class AsioWait final : public Waiter, public AsioPending {
  using Executor = boost::asio::associated_executor_t<Handler>;
  using Timer = boost::asio::basic_waitable_timer<
      std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, Executor>;
  using Allocator = typename std::allocator_traits<
      boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<AsioWait>;

 public:
  static void start(Ticket ticket, const WaitOptions& options, const std::stop_token& stop,
                    Handler handler) {
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    AsioWait* const memory = std::allocator_traits<Allocator>::allocate(allocator, 1);
    AsioWait* wait = nullptr;
    try {
      wait = new (memory) AsioWait(std::move(ticket), std::move(handler));
    } catch (...) {
      std::allocator_traits<Allocator>::deallocate(allocator, memory, 1);
      throw;
    }
    wait->begin(options, stop);
  }

 private:
  class Part {
   public:
    explicit Part(AsioWait& wait) noexcept : wait_(&wait) {}
    Part(Part&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    Part& operator=(Part&&) = delete;
    ~Part() {
      if (wait_ != nullptr) {
        wait_->drop_part();
      }
    }

   protected:
    AsioWait& take() noexcept { return *std::exchange(wait_, nullptr); }
    AsioWait* wait_;
  };
  struct EndPart : Part {
    using Part::Part;
    using allocator_type = AsioPostAllocator<void>;
    [[nodiscard]] allocator_type get_allocator() const noexcept {
      return allocator_type(&this->wait_->post_memory_);
    }
    void operator()() { this->take().ended(); }
  };
  struct TimerPart : Part {
    using Part::Part;
    void operator()(const boost::system::error_code& error) {
      AsioWait& wait = this->take();
      if (!error) {
        wait.abandon(Ending::kTimedOut);
      }
      wait.part_over();
    }
  };
  struct OnStop {
    AsioWait* wait;
    void operator()() const noexcept { wait->abandon(Ending::kCancelled); }
  };
  struct OnCancel {
    explicit OnCancel(AsioWait* owner) noexcept : wait(owner) {}
    AsioWait* wait;
    void operator()(boost::asio::cancellation_type type) const noexcept {
      if (type != boost::asio::cancellation_type::none) {
        wait->abandon(Ending::kCancelled);
      }
    }
  };

  AsioWait(Ticket ticket, Handler handler)
      : ticket_(std::move(ticket)),
        handler_(std::move(handler)),
        executor_(boost::asio::get_associated_executor(handler_)),
        work_(asio_work(executor_)),
        pending_(AsioPendingList::of(executor_)) {}
  ~AsioWait() override {
    on_stop_.reset();
    if (ending == Ending::kGranted) {
      static_cast<void>(take_hold());
    } else {
      ticket_.leave();
    }
  }

  // Whatever can end the wait is set up before it is published by `enter`; after that another
  // thread may have ended it, and nothing here is touched.
  void begin(const WaitOptions& options, const std::stop_token& stop) {
    bool waits = false;
    try {
      const AcquireRequest request = ticket_.enter();
      turnstile_ = request.turnstile;
      weight = request.weight;
      tokens = request.tokens;
      priority = options.priority;
      wake = [](Waiter& waiter) noexcept { static_cast<AsioWait&>(waiter).settle(); };
      if (!stop.stop_requested() && turnstile_->enter_if_free(request.generation, weight)) {
        ending = Ending::kGranted;
      } else {
        const auto patience = watch(options, stop);
        pending_->add(*this);
        waits = turnstile_->enter(*this, request.generation, patience, {});
      }
    } catch (...) {
      refusal_ = std::current_exception();
    }
    if (!waits) {
      settle();
    }
  }

  Turnstile::Patience watch(const WaitOptions& options, const std::stop_token& stop) {
    auto patience = Turnstile::Patience::kWait;
    if (options.timeout || options.deadline) {
      const TimePoint now = MonotonicTime::now();
      const TimePoint deadline = *deadline_of(options, now);
      if (deadline <= now) {
        patience = Turnstile::Patience::kDeadlinePassed;
      } else {
        timer_.emplace(executor_);
        timer_->expires_after(deadline - now);
        parts_.fetch_add(1, std::memory_order_relaxed);
        timer_->async_wait(TimerPart(*this));
      }
    }
    if (stop.stop_possible()) {
      on_stop_.emplace(stop, OnStop{this});
    }
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.template emplace<OnCancel>(this);
    }
    return patience;
  }

  void abandon(Ending why) noexcept { turnstile_->abandon(*this, why); }

  void settle() noexcept {
    const auto pending = pending_;  // This may be gone as soon as its end is posted.
    pending->settle(*this, [this] {
      const Executor executor = executor_;
      boost::asio::post(executor, EndPart(*this));
    });
  }

  void context_gone() noexcept override {
    abandon(Ending::kCancelled);
    pending_->wait_until_settled(*this);  // Another thread may be in the middle of a grant.
    drop_part();
  }

  void ended() {
    if (timer_) {
      timer_->cancel();
    }
    part_over();
  }
  void part_over() {
    if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      complete();
    }
  }
  void drop_part() noexcept {
    if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      static_cast<void>(destroy());
    }
  }

  void complete() {
    on_stop_.reset();
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.clear();
    }
    [[maybe_unused]] const auto work = std::move(work_);
    std::exception_ptr error = failure();
    Hold hold;
    if (error == nullptr) {
      hold = take_hold();
    }
    Handler handler = destroy();  // The memory is free again before the handler asks for more.
    std::move(handler)(std::move(error), std::move(hold));
  }

  [[nodiscard]] std::exception_ptr failure() const {
    if (refusal_ != nullptr || ending == Ending::kGranted) {
      return refusal_;
    }
    try {
      throw_ending(*this);
    } catch (...) {
      return std::current_exception();
    }
  }
  [[nodiscard]] Hold take_hold() noexcept {
    ending = Ending::kNone;
    if constexpr (requires { ticket_.entry; }) {
      ticket_.entry = nullptr;  // The hold will see to that.
    }
    return {*turnstile_, weight, holder};
  }
  Handler destroy() {
    Handler handler = std::move(handler_);
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    this->~AsioWait();
    std::allocator_traits<Allocator>::deallocate(allocator, this, 1);
    return handler;
  }

  Ticket ticket_;
  Handler handler_;
  Executor executor_;
  AsioWork<Executor> work_;
  std::shared_ptr<AsioPendingList> pending_;
  Turnstile* turnstile_ = nullptr;
  std::exception_ptr refusal_;
  std::atomic<int> parts_ = 1;
  std::optional<Timer> timer_;
  std::optional<std::stop_callback<OnStop>> on_stop_;
  AsioPostMemory post_memory_;
};

struct StartAsioWait {
  template <typename Handler, typename Ticket>
  void operator()(Handler&& handler, Ticket ticket, const WaitOptions& options,
                  const std::stop_token& stop) const {
    AsioWait<Ticket, std::decay_t<Handler>>::start(std::move(ticket), options, stop,
                                                   std::forward<Handler>(handler));
  }
};

}  // namespace holdfast::detail
