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

/// Those behind 'holdfast explain', 'graph' and 'top'.
struct ViewWords {
  std::string url;
  std::string what;
  std::string output = "text";
  bool dot = false;
  bool once = false;
};

/// `footer` is what all commands end their help with.
[[nodiscard]] CLI::App* add_locks_command(CLI::App& app, LocksWords& words, const char* footer);
/// Throws `UsageError`.
[[nodiscard]] LocksArgs locks_args(const CLI::App& locks, const LocksWords& words);

[[nodiscard]] CLI::App* add_explain_command(CLI::App& app, ViewWords& words, const char* footer);
[[nodiscard]] CLI::App* add_graph_command(CLI::App& app, ViewWords& words, const char* footer);
[[nodiscard]] CLI::App* add_top_command(CLI::App& app, ViewWords& words, const char* footer);
/// These throw `UsageError`, too.
[[nodiscard]] ExplainArgs explain_args(const ViewWords& words);
[[nodiscard]] GraphArgs graph_args(const ViewWords& words);
[[nodiscard]] TopArgs top_args(const ViewWords& words);

}  // namespace holdfast::cli
