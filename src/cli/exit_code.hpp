// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/error.hpp>

namespace holdfast::cli {

/// How the program ends; a promise to scripts, told in docs/cli.md and in --help. From 64 on as
/// sysexits.h has them.
enum ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,
  kUsage = 64,
  kBadData = 65,
  kNoStore = 66,
  kUnavailable = 69,
  kInternal = 70,
  kIoFailed = 74,
  kNotAcquired = 75,
  kConflict = 75,  ///< Of versions: as good a reason to come again.
  kNoPermission = 77,
  kBadConfig = 78,
  kLeaseLost = 79,
  kRanTooLong = 124,
  kNotExecutable = 126,
  kNotFound = 127,
  kSignalled = 128,  ///< And the number of the signal.
};

/// How the program ends after an error of the library.
[[nodiscard]] ExitCode exit_code_of(ErrorCode code) noexcept;

}  // namespace holdfast::cli
