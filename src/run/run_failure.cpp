// SPDX-License-Identifier: Apache-2.0
#include "run_failure.hpp"

#include <string>

#include <holdfast/workflow.hpp>

namespace holdfast::detail {

record::RunFailure failure_of(const std::exception_ptr& error) {
  record::RunFailure failure;
  try {
    std::rethrow_exception(error);
  } catch (const StepFailed& failed) {
    failure.set_type(failed.type());
    failure.set_message(failed.what());
    failure.set_code(failed.original_code());
  } catch (const Error& ours) {
    failure.set_type("holdfast::Error");
    failure.set_message(ours.what());
    failure.set_code(static_cast<int>(ours.code()));
  } catch (const std::exception& other) {
    failure.set_type("Error");
    failure.set_message(other.what());
  } catch (...) {
    failure.set_type("Error");
    failure.set_message("an exception of an unknown type");
  }
  return failure;
}

std::exception_ptr exception_of(const record::RunFailure& failure) {
  return std::make_exception_ptr(StepFailed(failure.type(), failure.message(), failure.code()));
}

}  // namespace holdfast::detail
