// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "args.hpp"

namespace holdfast::cli {

/// The words behind 'holdfast state', before they are understood.
struct StateWords {
  std::string name;
  std::string json;
  std::string scope;
  bool all = false;
  std::string if_version;
  bool if_absent = false;
  std::string after;
  std::string limit = "1000";
  std::string output;
  std::string url;
};

[[nodiscard]] CLI::App* add_state_command(CLI::App& app, StateWords& words);
/// Throws `UsageError`. Leaves out the store.
[[nodiscard]] StateArgs state_args(const CLI::App& state, const StateWords& words);

}  // namespace holdfast::cli
