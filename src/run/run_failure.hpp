// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include <run.pb.h>

namespace holdfast::detail {

/// What is stored of an exception, and what comes back of it: a `StepFailed`.
[[nodiscard]] record::RunFailure failure_of(const std::exception_ptr& error);
[[nodiscard]] std::exception_ptr exception_of(const record::RunFailure& failure);

}  // namespace holdfast::detail
