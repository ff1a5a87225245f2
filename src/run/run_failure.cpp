// SPDX-License-Identifier: Apache-2.0
#include "run_failure.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include <holdfast/deadlock.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/outcome.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/store_error.hpp>

#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

std::string name_of(const std::type_info* type) {
  if (type == nullptr) {
    return "unknown";
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(name.get()) : std::string(type->name());
}

}  // namespace

record::RunFailure failure_of(const std::exception_ptr& error) {
  record::RunFailure failure;
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    failure.set_type(name_of(&typeid(ours)));
    failure.set_message(ours.what());
    failure.set_code(static_cast<int>(ours.code()));
  } catch (const std::exception& other) {
    failure.set_type(name_of(&typeid(other)));
    failure.set_message(other.what());
  } catch (...) {
    failure.set_type(name_of(abi::__cxa_current_exception_type()));
    failure.set_message("something that is no std::exception was thrown: " + failure.type());
  }
  return failure;
}

std::string message_of(const std::exception_ptr& error) { return failure_of(error).message(); }

std::exception_ptr exception_of(const record::RunFailure& failure) {
  return std::make_exception_ptr(StepFailed(failure.type(), failure.message(), failure.code()));
}

std::exception_ptr child_exception_of(const record::RunFailure& failure) {
  if (failure.code() == static_cast<int>(ErrorCode::kRunExists)) {
    return std::make_exception_ptr(RunExists(failure.message()));
  }
  return std::make_exception_ptr(RunFailed(failure.message()));
}

std::exception_ptr answer_exception_of(const record::RunFailure& failure) {
  switch (static_cast<ErrorCode>(failure.code())) {
    case ErrorCode::kNoSuchHandler:
      return std::make_exception_ptr(NoSuchHandler(failure.message()));
    case ErrorCode::kUpdateRefused:
      return std::make_exception_ptr(UpdateRefused(failure.message()));
    case ErrorCode::kBadPayload:
      return std::make_exception_ptr(BadPayload(failure.message()));
    case ErrorCode::kNoSuchRun:
      return std::make_exception_ptr(NoSuchRun(failure.message()));
    case ErrorCode::kOutcomeUnknown:
      return std::make_exception_ptr(OutcomeUnknown(failure.message()));
    default:
      return exception_of(failure);
  }
}

std::exception_ptr state_exception_of(const record::RunFailure& failure) {
  switch (static_cast<ErrorCode>(failure.code())) {
    case ErrorCode::kBadPayload:
      return std::make_exception_ptr(BadPayload(failure.message()));
    case ErrorCode::kInvalidArgument:
      return std::make_exception_ptr(InvalidArgument(failure.message()));
    default:
      return exception_of(failure);
  }
}

namespace {

std::vector<DeadlockStep> circle_of(const std::string& payload) {
  std::vector<DeadlockStep> circle;
  const boost::json::value steps = parse_payload(payload);
  for (const boost::json::value& step : steps.as_array()) {
    const boost::json::array& names = step.as_array();
    circle.push_back({std::string(names.at(0).as_string()), std::string(names.at(1).as_string()),
                      std::string(names.at(2).as_string())});
  }
  return circle;
}

}  // namespace

std::exception_ptr lock_exception_of(const record::RunFailure& failure,
                                     const std::string& payload) {
  switch (static_cast<ErrorCode>(failure.code())) {
    case ErrorCode::kDeadlock:
      return std::make_exception_ptr(DeadlockError(circle_of(payload)));
    case ErrorCode::kTimedOut:
      return std::make_exception_ptr(TimedOut(failure.message()));
    case ErrorCode::kQueueFull:
      return std::make_exception_ptr(QueueFull(failure.message()));
    case ErrorCode::kUnsatisfiable:
      return std::make_exception_ptr(Unsatisfiable(failure.message()));
    case ErrorCode::kDefinitionMismatch:
      return std::make_exception_ptr(DefinitionMismatch(failure.message()));
    case ErrorCode::kInvalidArgument:
      return std::make_exception_ptr(InvalidArgument(failure.message()));
    default:
      return std::make_exception_ptr(Dropped(failure.message()));
  }
}

std::string circle_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DeadlockError& deadlock) {
    boost::json::array circle;
    for (const DeadlockStep& step : deadlock.cycle()) {
      circle.push_back(boost::json::array{step.owner, step.waits_for, step.held_by});
    }
    return payload_text(std::move(circle));
  } catch (...) {
    return {};
  }
}

}  // namespace holdfast::detail
