// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace holdfast::cli {

/// The command line cannot be understood; the message names the word.
class UsageError final : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Only print this: the help, the version.
struct PrintText {
  std::string text;
};

struct DemoArgs {
  std::vector<std::string> only;  ///< All if empty.
  bool list = false;
};

enum class StoreAction : std::uint8_t { kCheck, kBackup, kStats };
enum class Output : std::uint8_t { kTable, kJson };

struct StoreArgs {
  StoreAction action = StoreAction::kCheck;
  std::string url;
  std::filesystem::path target;  ///< Of a backup.
  Output output = Output::kTable;
};

using Args = std::variant<PrintText, DemoArgs, StoreArgs>;

[[nodiscard]] Args parse_args(int argc, const char* const* argv);

}  // namespace holdfast::cli
