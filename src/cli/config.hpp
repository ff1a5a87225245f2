// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace holdfast::cli {

/// A configuration file cannot be used; the message names the file, and the line and the key if it
/// is about one.
class ConfigError final : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value, and where it was found.
struct Setting {
  std::string value;
  std::filesystem::path file;
  std::uint32_t line = 0;
};

/// What the configuration files say: docs/configuration.md.
struct Config {
  std::optional<Setting> store;
  std::optional<Setting> lock_lease;
  std::optional<Setting> lock_on_lost;
  std::optional<Setting> lock_grace;
};

/// A place to look for a file.
struct ConfigPlace {
  std::filesystem::path file;
  bool here = false;  ///< In the working directory: paths in it may be relative.
};

/// Where to look, the strongest first: the working directory, the user's and the system's folders.
[[nodiscard]] std::vector<ConfigPlace> config_places();

/// Reads those that exist; of one setting the first counts, but all are checked. Throws
/// `ConfigError`, also for files that somebody other than this user or root may change.
[[nodiscard]] Config read_config(const std::vector<ConfigPlace>& places);

}  // namespace holdfast::cli
