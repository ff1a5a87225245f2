// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast {

/// The code of a workflow does something else than its journal says. The run stands still, and goes
/// on when the code fits again.
class NondeterminismError final : public detail::ErrorOf<ErrorCode::kNondeterminism> {
  using ErrorOf::ErrorOf;
};

/// An input, a result or a signal is not of the type that the code wants, or too long. The message
/// names the field: `input.address.zip`.
class BadPayload final : public detail::ErrorOf<ErrorCode::kBadPayload> {
  using ErrorOf::ErrorOf;
};

/// A run has no query or update of that name.
class NoSuchHandler final : public detail::ErrorOf<ErrorCode::kNoSuchHandler> {
  using ErrorOf::ErrorOf;
};

/// A run has refused an update. It has no trace of it.
class UpdateRefused final : public detail::ErrorOf<ErrorCode::kUpdateRefused> {
  using ErrorOf::ErrorOf;
};

/// A transaction of a run was guarded by a fence that is not the current one any more: the lock has
/// passed to another. Nothing of the transaction happened.
class StaleFence final : public detail::ErrorOf<ErrorCode::kStaleFence> {
  using ErrorOf::ErrorOf;
};

/// A run has failed, was cancelled, terminated or timed out, and its result was asked for, or
/// waited for by its parent.
class RunFailed final : public detail::ErrorOf<ErrorCode::kRunFailed> {
  using ErrorOf::ErrorOf;
};

/// A run of that id goes on already.
class RunExists final : public detail::ErrorOf<ErrorCode::kRunExists> {
  using ErrorOf::ErrorOf;
};

/// A step has failed for good.
class StepFailed final : public Error {
 public:
  StepFailed(std::string type, const std::string& message, int original_code)
      : Error(ErrorCode::kStepFailed, message),
        type_(std::move(type)),
        original_code_(original_code) {}

  /// The type of what it threw, as the compiler names it: "std::runtime_error".
  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  /// The number of an error of ours; 0: it is none of ours.
  [[nodiscard]] int original_code() const noexcept { return original_code_; }

 private:
  std::string type_;
  int original_code_;
};

}  // namespace holdfast
