// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "args.hpp"

namespace holdfast::cli {

/// The words behind 'holdfast locks', before they are understood.
struct LocksWords {
  std::string url;
  std::string name;
  std::string output = "table";
  std::string limit = "20";
  bool changes = false;
  std::string fence;
  std::string holder;
  bool yes = false;
  std::string slot;
  std::string capacity;
  std::string keep_history;
  std::string by;
  std::string reason;
};

/// `footer` is what all commands end their help with.
[[nodiscard]] CLI::App* add_locks_command(CLI::App& app, LocksWords& words, const char* footer);
/// Throws `UsageError`.
[[nodiscard]] LocksArgs locks_args(const CLI::App& locks, const LocksWords& words);

}  // namespace holdfast::cli
