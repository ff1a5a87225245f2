// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "args.hpp"

namespace holdfast::cli {

/// The words behind 'holdfast lock', before they are understood.
struct LockWords {
  std::string name;
  std::vector<std::string> locks;
  std::string slots;
  bool shared = false;
  bool exclusive = false;
  std::string weight;
  std::string priority;
  bool no_wait = false;
  std::string wait;
  std::string conflict_exit_code;
  std::string lease = "30s";
  std::string max_run;
  std::string on_lost = "term";
  std::string grace = "10s";
  std::string reason;
  bool verbose = false;
  std::string url;
  std::vector<std::string> command;  ///< Behind '--'.
};

[[nodiscard]] CLI::App* add_lock_command(CLI::App& app, LockWords& words);
/// Throws `UsageError`.
[[nodiscard]] LockArgs lock_args(const LockWords& words);

}  // namespace holdfast::cli
