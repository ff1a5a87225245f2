// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/system_error.hpp>

#include <holdfast/detail/asio_executor.hpp>
#include <holdfast/detail/task_context.hpp>
#include <holdfast/error.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

template <typename... Values>
struct AsioValues {
  using Type = std::tuple<Values...>;
};
template <>
struct AsioValues<> {
  using Type = void;
};
template <typename Value>
struct AsioValues<Value> {
  using Type = Value;
};

/// What an operation with this signature gives to a task.
template <typename... Args>
struct AsioSignature {
  using Value = typename AsioValues<Args...>::Type;
  static constexpr bool kCanFail = false;
};
template <typename... Values>
struct AsioSignature<boost::system::error_code, Values...> {
  using Value = typename AsioValues<Values...>::Type;
  static constexpr bool kCanFail = true;
};
template <typename... Values>
struct AsioSignature<std::exception_ptr, Values...> {
  using Value = typename AsioValues<Values...>::Type;
  static constexpr bool kCanFail = true;
};

[[nodiscard]] inline std::exception_ptr exception_of(const boost::system::error_code& error) {
  return error ? std::make_exception_ptr(boost::system::system_error(error)) : nullptr;
}
[[nodiscard]] inline std::exception_ptr exception_of(std::exception_ptr error) { return error; }

[[nodiscard]] inline bool is_abort(const boost::system::error_code& error) {
  return error == boost::asio::error::operation_aborted;
}
[[nodiscard]] inline bool is_abort(const std::exception_ptr& /*error*/) { return false; }

/// An Asio operation that a task waits for.
///
/// It consists of parts: the call that starts the operation, its handler, and what emits a
/// cancellation, if that comes. When the last one is over the task goes on: nothing can reach back
/// into a coroutine that has moved on.
class AsioTaskWait : protected Wait {
 public:
  [[nodiscard]] boost::asio::cancellation_slot slot() noexcept { return signal_.slot(); }

 protected:
  AsioTaskWait() = default;
  ~AsioTaskWait() = default;

  bool begin(TaskContext& context, std::coroutine_handle<> task) noexcept {
    context_ = &context;
    task_ = task;
    stopped_before_ = !context.begin_wait(*this);
    return !stopped_before_;
  }
  /// The operation has been started. False if it is over and the task need not be suspended.
  bool started() noexcept {
    Phase starting = Phase::kStarting;
    if (!phase_.compare_exchange_strong(starting, Phase::kStarted)) {
      emit_later();
    }
    return parts_.fetch_sub(1, std::memory_order_acq_rel) != 1;
  }
  void handler_over() noexcept {
    handler_over_.store(true, std::memory_order_release);
    part_over();
  }
  void part_over() noexcept {
    if (parts_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      context_->schedule(task_);
    }
  }
  /// After resuming. True if a stop was requested.
  bool end() noexcept {
    context_->end_wait();
    return context_->stop_requested();
  }
  [[noreturn]] void throw_cancelled() const {
    throw Cancelled("'" + context_->name() +
                    "' was asked to stop while it waited for an Asio operation");
  }

  /// Posts `EmitPart(*this)` to where the operation's handlers run.
  virtual void post_emit() noexcept = 0;

  class EmitPart {
   public:
    explicit EmitPart(AsioTaskWait& wait) noexcept : wait_(&wait) {}
    EmitPart(EmitPart&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    EmitPart& operator=(EmitPart&&) = delete;
    ~EmitPart() {
      if (wait_ != nullptr) {
        wait_->part_over();
      }
    }
    void operator()() noexcept {
      if (!wait_->handler_over_.load(std::memory_order_acquire)) {
        wait_->signal_.emit(boost::asio::cancellation_type::all);
      }
    }

   private:
    AsioTaskWait* wait_;
  };

  TaskContext* context_ = nullptr;
  bool stopped_before_ = false;

 private:
  enum class Phase { kStarting, kStarted, kStopping };

  // The operation may assign to the slot until it has been started: no emission before that.
  void cancel() noexcept override {
    if (phase_.exchange(Phase::kStopping) == Phase::kStarted) {
      emit_later();
    }
  }
  void emit_later() noexcept {
    int parts = parts_.load(std::memory_order_acquire);
    do {
      if (parts == 0) {
        return;
      }
    } while (!parts_.compare_exchange_weak(parts, parts + 1, std::memory_order_acq_rel));
    post_emit();
  }

  std::coroutine_handle<> task_;
  boost::asio::cancellation_signal signal_;
  std::atomic<int> parts_ = 2;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::atomic<bool> handler_over_ = false;
};

/// The io_context of a task that runs on one; else the system's threads.
[[nodiscard]] inline boost::asio::any_io_executor asio_executor_of(const TaskContext& context) {
  const auto* const executor = dynamic_cast<const AsioExecutor*>(&context.executor());
  return executor != nullptr ? executor->get_executor()
                             : boost::asio::any_io_executor(boost::asio::system_executor());
}

template <typename Initiation, typename InitArgs, typename... Args>
class AsioTaskAwaiter final : private AsioTaskWait {
  using Signature = AsioSignature<std::decay_t<Args>...>;
  using Value = typename Signature::Value;
  // The executor of the socket or timer. A strand of its own orders the steps of a composed
  // operation and the emission of a cancellation, whatever the number of threads.
  using IoExecutor = boost::asio::associated_executor_t<Initiation, boost::asio::any_io_executor>;
  using Strand = boost::asio::strand<IoExecutor>;

 public:
  AsioTaskAwaiter(Initiation& initiation, InitArgs& init_args) noexcept
      : initiation_(initiation), init_args_(init_args) {}
  ~AsioTaskAwaiter() = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  template <typename Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) {
    static_assert(TaskPromise<Promise>,
                  "use_task is for operations that a holdfast::Task awaits; in an Asio coroutine "
                  "write boost::asio::use_awaitable");
    TaskContext& context = task.promise().task_context();
    return begin(context, task) && start(context);
  }

  Value await_resume() {
    const bool stopped = end();
    if (stopped_before_ || (stopped && aborted_)) {
      throw_cancelled();
    }
    if (refusal_ != nullptr) {
      std::rethrow_exception(refusal_);
    }
    return result_.take();
  }

 private:
  class Handler {
   public:
    using executor_type = Strand;
    using cancellation_slot_type = boost::asio::cancellation_slot;

    explicit Handler(AsioTaskAwaiter& wait) noexcept : wait_(&wait) {}
    Handler(Handler&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    Handler& operator=(Handler&&) = delete;
    ~Handler() {
      if (wait_ != nullptr) {
        wait_->abandoned();
      }
    }
    [[nodiscard]] executor_type get_executor() const noexcept { return *wait_->strand_; }
    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept {
      return wait_->slot();
    }
    void operator()(Args... args) {
      std::exchange(wait_, nullptr)->complete(std::forward<Args>(args)...);
    }

   private:
    AsioTaskAwaiter* wait_;
  };

  bool start(TaskContext& context) {
    try {
      strand_.emplace(boost::asio::get_associated_executor(initiation_, asio_executor_of(context)));
    } catch (...) {
      refusal_ = std::current_exception();
      return false;
    }
    try {
      std::apply(
          [this](auto&... init_args) {
            std::move(initiation_)(Handler(*this), std::move(init_args)...);
          },
          init_args_);
    } catch (...) {
      refusal_ = std::current_exception();  // The handler went, which ended its part.
    }
    return started();
  }

  void complete(Args... args) noexcept {
    try {
      set_result(std::forward<Args>(args)...);
    } catch (...) {
      result_.set_exception(std::current_exception());
    }
    handler_over();
  }

  template <typename First, typename... Rest>
  void set_result(First&& first, Rest&&... rest) {
    if constexpr (Signature::kCanFail) {
      aborted_ = is_abort(first);
      if (auto error = exception_of(first); error != nullptr) {
        result_.set_exception(std::move(error));
      } else {
        set_value(std::forward<Rest>(rest)...);
      }
    } else {
      set_value(std::forward<First>(first), std::forward<Rest>(rest)...);
    }
  }
  void set_result() { set_value(); }

  template <typename... Values>
  void set_value(Values&&... values) {
    if constexpr (sizeof...(Values) == 0) {
      result_.set_value(std::monostate{});
    } else {
      result_.set_value(Value(std::forward<Values>(values)...));
    }
  }

  void abandoned() noexcept {
    result_.set_exception(std::make_exception_ptr(
        Closed("an Asio operation was destroyed before it ended, with its execution context")));
    handler_over();
  }

  void post_emit() noexcept override {
    const Strand strand = *strand_;
    boost::asio::post(strand, EmitPart(*this));
  }

  Initiation& initiation_;
  InitArgs& init_args_;
  std::optional<Strand> strand_;
  Result<Value> result_;
  std::exception_ptr refusal_;
  bool aborted_ = false;
};

/// An Asio operation that has not started: what the completion token `use_task` returns.
template <typename Initiation, typename InitArgs, typename... Args>
class [[nodiscard]] AsioTaskOperation {
  using Awaiter = AsioTaskAwaiter<Initiation, InitArgs, Args...>;

 public:
  AsioTaskOperation(Initiation initiation, InitArgs init_args)
      : initiation_(std::move(initiation)), init_args_(std::move(init_args)) {}

  Awaiter operator co_await() { return Awaiter(initiation_, init_args_); }

 private:
  Initiation initiation_;
  InitArgs init_args_;
};

}  // namespace holdfast::detail
