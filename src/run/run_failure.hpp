// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include <run.pb.h>

namespace holdfast::detail {

/// What is recorded of what was thrown: its type, as the compiler names it, its message, and the
/// number of an error of ours.
[[nodiscard]] record::RunFailure failure_of(const std::exception_ptr& error);

/// What a failure that was recorded is for the code that waits for the operation: a `StepFailed`,
/// of a child a `RunFailed`, or a `RunExists` if its id was taken. Of state, a `BadPayload` is one
/// again.
[[nodiscard]] std::exception_ptr exception_of(const record::RunFailure& failure);
[[nodiscard]] std::exception_ptr child_exception_of(const record::RunFailure& failure);
[[nodiscard]] std::exception_ptr state_exception_of(const record::RunFailure& failure);
/// What `Context::lock` says it throws. `payload` is that of the event: the circle of a deadlock.
[[nodiscard]] std::exception_ptr lock_exception_of(const record::RunFailure& failure,
                                                   const std::string& payload);
/// That payload; empty: it is no deadlock.
[[nodiscard]] std::string circle_text(const std::exception_ptr& error);
/// And for whoever has asked the run: errors of ours that it may expect are what they were.
[[nodiscard]] std::exception_ptr answer_exception_of(const record::RunFailure& failure);

}  // namespace holdfast::detail
