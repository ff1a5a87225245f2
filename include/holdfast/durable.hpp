// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/detail/run_operation.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

class RunLock;
struct GateInfo;
struct LeasedGrant;

namespace detail {

template <typename T>
inline constexpr bool kIsLock = false;
template <>
inline constexpr bool kIsLock<RunLock> = true;
template <>
inline constexpr bool kIsLock<std::optional<RunLock>> = true;

template <typename T>
inline constexpr bool kIsOfGate = false;
template <>
inline constexpr bool kIsOfGate<LeasedGrant> = true;
template <>
inline constexpr bool kIsOfGate<std::optional<GateInfo>> = true;

/// What an operation can have as its value: a payload, something that hangs on the operation, or
/// what came of one at a gate.
template <typename T>
concept DurableValue = kIsLock<T> || kIsOfGate<T> || Payload<T>;

/// How the value is made of the outcome of the operation.
template <typename T>
struct DurableResult {
  static T take(RunOperation& operation, const std::string& what) {
    return from_payload<T>(operation.take(what), what);
  }
};

}  // namespace detail

/// What a workflow waits for: each operation of its `Context` returns one. Await it once; it goes
/// on by itself from the moment it was made, so two can be under way at once.
template <detail::DurableValue T, bool kFromTemporary = true>
class [[nodiscard]] Durable {
 public:
  using DurableOperation = Durable;
  using Value = T;
  /// False: g++ before 13 would destroy something twice.
  static constexpr bool kMayBeTemporary = kFromTemporary;

  Durable(std::shared_ptr<detail::RunOperation> operation, std::string what)
      : operation_(std::move(operation)), what_(std::move(what)) {}
  Durable(Durable&&) noexcept = default;
  Durable& operator=(Durable&&) = delete;
  ~Durable() = default;

  /// Trivial, and a value: g++ 12 would copy what an `await_transform` returns by reference.
  class Awaiter {
   public:
    explicit Awaiter(Durable& durable) noexcept : durable_(&durable) {}
    [[nodiscard]] bool await_ready() const noexcept { return durable_->operation_->is_settled(); }
    template <detail::TaskPromise Promise>
    bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
      is_second_ = durable_->operation_->is_awaited();
      if (is_second_) {
        return false;
      }
      context_ = &coroutine.promise().task_context();
      return durable_->operation_->wait(*context_, coroutine);
    }
    T await_resume() {
      if (context_ != nullptr) {
        context_->end_wait();
      }
      if (is_second_) {
        detail::refuse_second_await(durable_->what_);
      }
      return detail::DurableResult<T>::take(*durable_->operation_, durable_->what_);
    }

   private:
    Durable* durable_;
    detail::TaskContext* context_ = nullptr;
    bool is_second_ = false;
  };

 private:
  std::shared_ptr<detail::RunOperation> operation_;
  std::string what_;
};

}  // namespace holdfast
