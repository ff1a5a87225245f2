// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <toml++/toml.h>

#include "args.hpp"
#include "duration.hpp"
#include "trusted_file.hpp"

namespace holdfast::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "holdfast.toml";

// --- Places --------------------------------------------------------------------------------------

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it here.
  return value == nullptr ? std::string_view{} : value;
}

/// Below a folder for the configuration of all programs. One that is not absolute is none: so the
/// XDG Base Directory Specification has it.
void add_below(std::vector<ConfigPlace>& places, const fs::path& folder) {
  if (folder.is_absolute()) {
    places.push_back({folder / "holdfast" / kFileName});
  }
}

fs::path users_folder() {
  fs::path folder = environment("XDG_CONFIG_HOME");
  if (folder.is_absolute()) {
    return folder;
  }
  const fs::path home = environment("HOME");
  return home.empty() ? home : home / ".config";
}

// --- Reading -------------------------------------------------------------------------------------

std::string place_text(const fs::path& file, const toml::source_region& source) {
  return fmt::format("{}:{}", file.string(), source.begin.line);
}

std::string_view type_text(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a time";
  }
}

/// One key that may be there.
struct Key {
  std::string_view name;
  const char* example;
  std::optional<Setting> Config::* setting;
  /// What is wrong with a value; nothing if it is right.
  std::string (*fault)(const std::string& value, const ConfigPlace& place);
};

std::string fault_of_store(const std::string& value, const ConfigPlace& place) {
  for (const std::string_view scheme : {"sqlite:", "file:"}) {
    const bool relative = value.starts_with(scheme) &&
                          !std::string_view(value).substr(scheme.size()).starts_with('/');
    if (relative && !place.here) {
      return fmt::format(
          "the path is relative, and so would be another one in each folder; write '{}/...'",
          scheme);
    }
  }
  return value.empty() ? "it is empty; write a URL, such as 'sqlite:/var/lib/app/state.db'" : "";
}

std::string fault_of_time(const std::string& value, const ConfigPlace& /*place*/) {
  return parse_duration(value)
             ? ""
             : fmt::format("'{}' is no time; write such as 500ms, 30s, 30m, 3h or 1d", value);
}

std::string fault_of_lease(const std::string& value, const ConfigPlace& place) {
  const auto lease = parse_duration(value);
  return lease && (*lease < kLockLeaseMin || *lease > kLockLeaseMax)
             ? fmt::format("'{}' is no lease; write a time from 100ms to 1d", value)
             : fault_of_time(value, place);
}

std::string fault_of_on_lost(const std::string& value, const ConfigPlace& /*place*/) {
  return value == "term" || value == "kill" || value == "warn"
             ? ""
             : fmt::format("'{}' is unknown; write term, kill or warn", value);
}

constexpr std::array kTopKeys{
    Key{"store", "store = \"sqlite:/var/lib/app/state.db\"", &Config::store, fault_of_store}};
constexpr std::array kLockKeys{
    Key{"lease", "lease = \"30s\"", &Config::lock_lease, fault_of_lease},
    Key{"on_lost", "on_lost = \"term\"", &Config::lock_on_lost, fault_of_on_lost},
    Key{"grace", "grace = \"10s\"", &Config::lock_grace, fault_of_time}};

template <std::size_t kCount>
const Key* find_key(const std::array<Key, kCount>& keys, std::string_view name) {
  for (const Key& key : keys) {
    if (key.name == name) {
      return &key;
    }
  }
  return nullptr;
}

void take(Config& config, const Key& key, const toml::node& node, const ConfigPlace& place) {
  const std::string where = place_text(place.file, node.source());
  const toml::value<std::string>* text = node.as_string();
  if (text == nullptr) {
    throw ConfigError(fmt::format("{}: '{}' is {}, and has to be a text; write {}", where, key.name,
                                  type_text(node.type()), key.example));
  }
  if (const std::string fault = key.fault(text->get(), place); !fault.empty()) {
    throw ConfigError(fmt::format("{}: '{}': {}", where, key.name, fault));
  }
  if (!(config.*key.setting)) {
    config.*key.setting = Setting{text->get(), place.file, node.source().begin.line};
  }
}

void take_lock(Config& config, const toml::node& node, const ConfigPlace& place) {
  const toml::table* lock = node.as_table();
  if (lock == nullptr) {
    throw ConfigError(fmt::format("{}: 'lock' is {}, and has to be a table; write [lock]",
                                  place_text(place.file, node.source()), type_text(node.type())));
  }
  for (const auto& [name, value] : *lock) {
    const Key* key = find_key(kLockKeys, name.str());
    if (key == nullptr) {
      throw ConfigError(
          fmt::format("{}: unknown key '{}' in [lock]; known are 'lease', 'on_lost' and 'grace'",
                      place_text(place.file, name.source()), name.str()));
    }
    take(config, *key, value, place);
  }
}

/// Reports carry no piece of the text beyond a letter: it may have a password in it.
toml::table parsed(const std::string& text, const fs::path& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw ConfigError(
        fmt::format("{}: no TOML: {}", place_text(file, error.source()), error.description()));
  }
}

void read_file(Config& config, const ConfigPlace& place) {
  const std::optional<std::string> text = read_trusted_file(place.file);
  if (!text) {
    return;
  }
  const toml::table table = parsed(*text, place.file);
  for (const auto& [name, value] : table) {
    if (const Key* key = find_key(kTopKeys, name.str())) {
      take(config, *key, value, place);
    } else if (name.str() == "lock") {
      take_lock(config, value, place);
    } else {
      throw ConfigError(fmt::format("{}: unknown key '{}'; known are 'store' and [lock]",
                                    place_text(place.file, name.source()), name.str()));
    }
  }
}

}  // namespace

std::vector<ConfigPlace> config_places() {
  std::vector<ConfigPlace> places;
  std::error_code no_folder;
  const fs::path here = fs::current_path(no_folder);
  if (!no_folder) {
    places.push_back({here / kFileName, true});
  }
  add_below(places, users_folder());
  const std::string_view system = environment("XDG_CONFIG_DIRS");
  for (std::string_view rest = system.empty() ? "/etc/xdg" : system; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    add_below(places, folder);
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
  }
  add_below(places, "/etc");
  return places;
}

Config read_config(const std::vector<ConfigPlace>& places) {
  Config config;
  for (const ConfigPlace& place : places) {
    read_file(config, place);
  }
  return config;
}

}  // namespace holdfast::cli
