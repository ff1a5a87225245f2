// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include <holdfast/detail/task_context.hpp>

namespace holdfast::detail {

/// A durable operation of a run, as the coroutine sees it that waits for it. Used by one thread at
/// a time: the one that activates the run.
class RunOperation final : private Wait {
 public:
  explicit RunOperation(std::uint64_t number) noexcept : number_(number) {}
  RunOperation(const RunOperation&) = delete;
  RunOperation& operator=(const RunOperation&) = delete;
  ~RunOperation() = default;

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] bool is_settled() const noexcept { return outcome_.index() != 0; }

  [[nodiscard]] bool is_cancelled() const noexcept { return cancelled_; }

  /// Resumes the one that waits, when its turn comes.
  void settle(boost::json::value value) {
    outcome_ = std::move(value);
    wake();
  }
  void fail(std::exception_ptr error) {
    outcome_ = std::move(error);
    wake();
  }

  /// False: it has not to wait, or must not.
  [[nodiscard]] bool wait(TaskContext& context, std::coroutine_handle<> coroutine) noexcept {
    if (!context.begin_wait(*this)) {
      cancelled_ = true;
      return false;
    }
    context_ = &context;
    coroutine_ = coroutine;
    return true;
  }
  /// Throws what it failed with, or `Cancelled`. Once.
  [[nodiscard]] boost::json::value take(std::string_view what);

 private:
  void wake() noexcept {
    if (coroutine_) {
      context_->schedule(std::exchange(coroutine_, nullptr));
    }
  }
  void cancel() noexcept override {
    cancelled_ = true;
    wake();
  }

  std::uint64_t number_;
  std::variant<std::monostate, boost::json::value, std::exception_ptr> outcome_;
  TaskContext* context_ = nullptr;
  std::coroutine_handle<> coroutine_;
  bool cancelled_ = false;
};

}  // namespace holdfast::detail
