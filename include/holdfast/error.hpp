// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace holdfast {

/// What went wrong, as a number that keeps its meaning for ever. The hundreds say what a caller
/// can do about it (see `Remedy`); every code has a page in docs/errors/.
enum class ErrorCode : int {
  kInvalidArgument = 100,
  kUnsatisfiable = 101,
  kWrongContext = 102,
  kTaskTooDeep = 103,
  kUnsupported = 104,
  kNotAStore = 105,
  kNewerFormat = 106,
  kNoSuchStore = 107,
  kNoAccess = 108,
  kReentrantMutation = 109,
  kDefinitionMismatch = 110,
  kNoSuchGate = 111,
  kNondeterminism = 112,
  kBadPayload = 113,
  kNoSuchRun = 114,
  kRunExists = 115,
  kNoSuchHandler = 116,
  kUpdateRefused = 117,
  kTransactionRefused = 118,

  kTimedOut = 200,
  kQueueFull = 201,
  kDropped = 202,
  kStoreBusy = 203,
  kStoreFull = 204,
  kConcurrencyLimitExceeded = 205,

  kDeadlock = 300,
  kConcurrentModification = 301,

  kCancelled = 400,
  kClosed = 401,
  kStoreCorrupt = 402,
  kStoreFailed = 403,
  kSessionLost = 404,
  kStepFailed = 405,
  kRunFailed = 406,
  kPermanentFailure = 407,
  kStaleFence = 408,

  kOutcomeUnknown = 500,
  kMutationTimeout = 501,
};

/// What to do about an error.
enum class Remedy : int {
  kFixTheCall = 1,  ///< The same call will fail again: the program or its input is wrong.
  kTryAgain = 2,    ///< Nothing happened; the same call may work later.
  kStartOver = 3,   ///< Let go of what you hold, read again, and redo the whole operation.
  kGiveUp = 4,      ///< Someone asked for the end, or what was used is gone: unwind.
  kFindOut = 5,     ///< It may or may not have happened: read, before trying again.
};

[[nodiscard]] constexpr Remedy remedy_of(ErrorCode code) noexcept {
  return static_cast<Remedy>(static_cast<int>(code) / 100);
}

/// The base of everything that Holdfast throws.
///
/// ```
/// try {
///   auto hold = co_await mutex.lock({.timeout = 5s});
/// } catch (const holdfast::Error& error) {
///   if (error.remedy() == holdfast::Remedy::kTryAgain) { ... }
/// }
/// ```
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] Remedy remedy() const noexcept { return remedy_of(code_); }

 private:
  ErrorCode code_;
};

namespace detail {

template <ErrorCode kCode>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message) : Error(kCode, message) {}
};

}  // namespace detail

/// A value that can never work: it is named in the message, and nothing was changed.
class InvalidArgument final : public detail::ErrorOf<ErrorCode::kInvalidArgument> {
  using ErrorOf::ErrorOf;
};

/// More was asked for than there can ever be, such as a weight above the capacity.
class Unsatisfiable final : public detail::ErrorOf<ErrorCode::kUnsatisfiable> {
  using ErrorOf::ErrorOf;
};

/// The call does not belong here, such as a blocking wait inside a task.
class WrongContext final : public detail::ErrorOf<ErrorCode::kWrongContext> {
  using ErrorOf::ErrorOf;
};

/// Tasks await tasks more than `kTaskDepthMax` deep: most likely a recursion without an end.
class TaskTooDeep final : public detail::ErrorOf<ErrorCode::kTaskTooDeep> {
  using ErrorOf::ErrorOf;
};

/// The deadline passed first. The waiter has left its queue and holds nothing.
class TimedOut final : public detail::ErrorOf<ErrorCode::kTimedOut> {
  using ErrorOf::ErrorOf;
};

/// A bounded queue was full and its policy is to reject.
class QueueFull final : public detail::ErrorOf<ErrorCode::kQueueFull> {
  using ErrorOf::ErrorOf;
};

/// A bounded queue was full and its policy dropped this waiter for a newer one.
class Dropped final : public detail::ErrorOf<ErrorCode::kDropped> {
  using ErrorOf::ErrorOf;
};

/// A stop was requested. The waiter has left its queue and holds nothing.
class Cancelled final : public detail::ErrorOf<ErrorCode::kCancelled> {
  using ErrorOf::ErrorOf;
};

/// The lock or limit that was waited for has been destroyed.
class Closed final : public detail::ErrorOf<ErrorCode::kClosed> {
  using ErrorOf::ErrorOf;
};

}  // namespace holdfast
