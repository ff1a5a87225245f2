// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/task.hpp>

namespace holdfast {

namespace detail {
[[nodiscard]] std::string message_of(const std::exception_ptr& error);
}

/// How an operation ended, with a value or by throwing: what `Context::attempt` returns, so that
/// what is to be awaited after a failure need not be awaited in a catch block, where C++ forbids
/// it.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  using Value = typename detail::Result<T>::Value;

  /// For `Context::attempt`.
  explicit Outcome(detail::Result<T> result) : result_(std::move(result)) {}

  /// It has a value.
  explicit operator bool() const noexcept { return result_.has_value(); }
  /// The value, moved out, or the failure, thrown.
  T value() {
    rethrow();
    return result_.take();
  }
  /// What was thrown; null if it has a value.
  [[nodiscard]] std::exception_ptr error() const noexcept {
    return result_.failed() ? result_.exception() : nullptr;
  }
  /// Of what was thrown; empty if it has a value.
  [[nodiscard]] std::string message() const {
    return result_.failed() ? detail::message_of(result_.exception()) : std::string();
  }
  /// Throws what was thrown, if anything was.
  void rethrow() const {
    if (result_.failed()) {
      std::rethrow_exception(result_.exception());
    }
  }

 private:
  detail::Result<T> result_;
};

}  // namespace holdfast
