// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include <run.pb.h>

namespace holdfast::detail {

/// What a failure that was recorded is for the code that waits for it: a `StepFailed`.
[[nodiscard]] std::exception_ptr exception_of(const record::RunFailure& failure);

}  // namespace holdfast::detail
