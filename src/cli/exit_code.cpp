// SPDX-License-Identifier: Apache-2.0
#include "exit_code.hpp"

namespace holdfast::cli {

ExitCode exit_code_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsatisfiable:
    case ErrorCode::kDefinitionMismatch:
      return kUsage;
    case ErrorCode::kNotAStore:
    case ErrorCode::kNewerFormat:
    case ErrorCode::kStoreCorrupt:
      return kBadData;
    case ErrorCode::kNoSuchStore:
    case ErrorCode::kNoSuchGate:
      return kNoStore;
    case ErrorCode::kUnsupported:
    case ErrorCode::kTimedOut:
    case ErrorCode::kStoreBusy:
    case ErrorCode::kConcurrencyLimitExceeded:
    case ErrorCode::kSessionLost:
    case ErrorCode::kConcurrentModification:
    case ErrorCode::kMutationTimeout:
      return kUnavailable;
    case ErrorCode::kStoreFull:
    case ErrorCode::kStoreFailed:
    case ErrorCode::kOutcomeUnknown:
      return kIoFailed;
    case ErrorCode::kDeadlock:
      return kNotAcquired;
    case ErrorCode::kNoAccess:
      return kNoPermission;
    case ErrorCode::kWrongContext:
    case ErrorCode::kTaskTooDeep:
    case ErrorCode::kQueueFull:
    case ErrorCode::kDropped:
    case ErrorCode::kReentrantMutation:
    case ErrorCode::kNondeterminism:
    case ErrorCode::kBadPayload:
    case ErrorCode::kStepFailed:
    case ErrorCode::kRunFailed:
    case ErrorCode::kNoSuchRun:
    case ErrorCode::kRunExists:
    case ErrorCode::kNoSuchHandler:
    case ErrorCode::kUpdateRefused:
    case ErrorCode::kTransactionRefused:
    case ErrorCode::kPermanentFailure:
    case ErrorCode::kStaleFence:
    case ErrorCode::kCancelled:
    case ErrorCode::kClosed:
      break;
  }
  return kInternal;
}

}  // namespace holdfast::cli
