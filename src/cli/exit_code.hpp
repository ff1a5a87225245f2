// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace holdfast::cli {

/// How the program ends; a promise to scripts, told in docs/cli.md and in --help. From 64 on as
/// sysexits.h has them.
enum ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,
  kUsage = 64,
  kInternal = 70,
  kOutputLost = 74,
};

}  // namespace holdfast::cli
