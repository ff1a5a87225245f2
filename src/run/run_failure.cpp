// SPDX-License-Identifier: Apache-2.0
#include "run_failure.hpp"

#include <holdfast/workflow.hpp>

namespace holdfast::detail {

std::exception_ptr exception_of(const record::RunFailure& failure) {
  return std::make_exception_ptr(StepFailed(failure.type(), failure.message(), failure.code()));
}

}  // namespace holdfast::detail
