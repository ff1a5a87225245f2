// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>
#include <variant>

#include <holdfast/detail/task_context.hpp>

namespace holdfast::detail {

class RunMachine;

/// Throws `WrongContext`.
[[noreturn]] void refuse_second_await(std::string_view what);

/// A durable operation of a run, as the coroutine sees it that waits for it. Used by one thread at
/// a time: the one that activates the run.
class RunOperation final : private Wait {
 public:
  /// Of one that the journal does not know.
  static constexpr std::uint64_t kNoNumber = std::numeric_limits<std::uint64_t>::max();

  /// The machine outlives every wait for this.
  RunOperation(RunMachine& machine, std::uint64_t number) noexcept
      : machine_(machine), number_(number) {}
  RunOperation(const RunOperation&) = delete;
  RunOperation& operator=(const RunOperation&) = delete;
  /// A lock that was granted and that nobody took is let go of.
  ~RunOperation();

  [[nodiscard]] RunMachine& machine() const noexcept { return machine_; }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool is_settled() const noexcept { return outcome_.index() != 0; }
  [[nodiscard]] bool is_cancelled() const noexcept { return cancelled_; }
  [[nodiscard]] bool is_awaited() const noexcept { return static_cast<bool>(coroutine_); }
  /// Of who waits for it; null: nobody does.
  [[nodiscard]] const void* waiting_frame() const noexcept { return coroutine_.address(); }

  /// Resumes the one that waits, when its turn comes.
  void settle(boost::json::value value) {
    outcome_ = std::move(value);
    wake();
  }
  void fail(std::exception_ptr error) {
    outcome_ = std::move(error);
    wake();
  }

  /// Once it is under way, a wait for it is over when it has ended, and not before: it uses what
  /// the one who waits has.
  void set_must_end() noexcept { must_end_ = true; }
  [[nodiscard]] bool must_end() const noexcept { return must_end_; }

  /// What it is settled with is held by the run, and is to be released.
  void set_is_lock() noexcept { is_lock_ = true; }

  /// False: it has not to wait, or must not.
  [[nodiscard]] bool wait(TaskContext& context, std::coroutine_handle<> coroutine) noexcept {
    if (!context.begin_wait(*this) && give_up()) {
      return false;
    }
    context_ = &context;
    coroutine_ = coroutine;
    return true;
  }
  /// Throws what it failed with, or `Cancelled`. Once; then `WrongContext`.
  [[nodiscard]] boost::json::value take(std::string_view what);

 private:
  struct Taken {};

  void wake() noexcept {
    if (coroutine_) {
      context_->schedule(std::exchange(coroutine_, nullptr));
    }
  }
  void cancel() noexcept override {
    if (coroutine_ && give_up()) {
      wake();
    }
  }
  /// False: its end has to be waited for.
  [[nodiscard]] bool give_up() noexcept;

  RunMachine& machine_;
  std::uint64_t number_;
  std::variant<std::monostate, boost::json::value, std::exception_ptr, Taken> outcome_;
  TaskContext* context_ = nullptr;
  std::coroutine_handle<> coroutine_;
  bool cancelled_ = false;
  bool must_end_ = false;
  bool is_lock_ = false;
};

}  // namespace holdfast::detail
