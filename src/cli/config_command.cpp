// SPDX-License-Identifier: Apache-2.0
#include "config_command.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/open_store.hpp>

#include "config.hpp"
#include "escape.hpp"
#include "json.hpp"
#include "lock_args.hpp"
#include "own_store.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

struct Shown {
  std::string name;
  std::string value;
  std::string source;  // "environment", "file" or "default".
  std::string file;
  std::uint32_t line = 0;
};

Shown shown(std::string name, const std::optional<Setting>& setting, std::string otherwise) {
  if (!setting) {
    return {std::move(name), std::move(otherwise), "default", {}, 0};
  }
  return {std::move(name), setting->value, "file", setting->file.string(), setting->line};
}

Shown shown_store(const Config& config) {
  const char* url = std::getenv("HOLDFAST_STORE");  // NOLINT(concurrency-mt-unsafe): one thread.
  if (url != nullptr && *url != '\0') {
    return {"store", redacted_url(url), "environment", {}, 0};
  }
  Shown store = shown("store", config.store, config.store ? std::string() : own_store_url(false));
  store.value = redacted_url(store.value);
  return store;
}

std::string from_text(const Shown& setting) {
  if (setting.source == "environment") {
    return "HOLDFAST_STORE";
  }
  return setting.file.empty() ? setting.source
                              : fmt::format("{}:{}", one_line(setting.file), setting.line);
}

std::string json_setting(const Shown& setting) {
  Fields fields{{"name", json_string(setting.name)},
                {"value", json_string(setting.value)},
                {"source", json_string(setting.source)},
                {"file", setting.file.empty() ? "null" : json_string(setting.file)},
                {"line", setting.file.empty() ? "null" : std::to_string(setting.line)}};
  return json_object(fields);
}

}  // namespace

void show_config(Terminal& terminal, const ConfigArgs& args) {
  const Config config = read_config(config_places());
  const LockWords defaults;
  const std::vector<Shown> settings{shown_store(config),
                                    shown("lock.lease", config.lock_lease, defaults.lease),
                                    shown("lock.on_lost", config.lock_on_lost, defaults.on_lost),
                                    shown("lock.grace", config.lock_grace, defaults.grace)};
  if (args.output == Output::kTable) {
    std::vector<Row> rows{{"SETTING", "VALUE", "FROM"}};
    for (const Shown& setting : settings) {
      rows.push_back({setting.name, one_line(setting.value), from_text(setting)});
    }
    print_table(terminal, rows);
    return;
  }
  std::vector<std::string> objects;
  for (const Shown& setting : settings) {
    objects.push_back(json_setting(setting));
    if (args.output == Output::kJsonLines) {
      terminal.line(objects.back());
    }
  }
  if (args.output == Output::kJson) {
    terminal.line(json_object({{"settings", json_array(objects)}}));
  }
}

}  // namespace holdfast::cli
