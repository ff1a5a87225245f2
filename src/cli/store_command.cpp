// SPDX-License-Identifier: Apache-2.0
#include "store_command.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

#include "escape.hpp"
#include "json.hpp"

namespace holdfast::cli {

namespace {

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string entries_text(std::uint64_t count) { return counted(count, "entry", "entries"); }

/// "17 bytes", "293 KiB (299523 bytes)".
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB"};
  constexpr std::uint64_t kStep = 1024;
  std::string exact = counted(bytes, "byte", "bytes");
  if (bytes < kStep) {
    return exact;
  }
  std::size_t unit = 0;
  std::uint64_t size = bytes / kStep;
  while (size >= 10 * kStep && unit + 1 < kUnits.size()) {
    size /= kStep;
    ++unit;
  }
  return fmt::format("{} {} ({})", size, kUnits.at(unit), exact);
}

// --- Check ---------------------------------------------------------------------------------------

/// Damage that keeps the store from being opened is a fault like the others.
CheckReport check(const std::string& url) {
  try {
    const auto store = open_existing_store(url);
    ThreadPool pool(1);
    return sync_wait(pool, store->check());
  } catch (const StoreCorrupt& error) {
    return {.entries = 0, .faults = {error.what()}};
  }
}

ExitCode run_check(Terminal& terminal, const StoreArgs& args) {
  const CheckReport report = check(args.url);
  const bool sound = report.faults.empty();
  if (args.output != Output::kTable) {
    terminal.line(json_object({{"store", json_string(redacted_url(args.url))},
                               {"sound", sound ? "true" : "false"},
                               {"entries", std::to_string(report.entries)},
                               {"faults", json_strings(report.faults)}}));
  } else if (sound) {
    terminal.line("sound: " + entries_text(report.entries));
  }
  if (args.output == Output::kTable) {
    for (const std::string& fault : report.faults) {
      terminal.line("fault: " + one_line(fault));
    }
  }
  return sound ? kOk : kCheckFailed;
}

// --- Backup --------------------------------------------------------------------------------------

ExitCode run_backup(Terminal& terminal, const StoreArgs& args) {
  const auto store = open_existing_store(args.url);
  ThreadPool pool(1);
  const BackupReport report = sync_wait(pool, store->backup(args.target));
  const std::string target = std::filesystem::absolute(args.target).string();
  if (args.output != Output::kTable) {
    terminal.line(json_object({{"store", json_string(redacted_url(args.url))},
                               {"target", json_string(target)},
                               {"entries", std::to_string(report.entries)},
                               {"bytes", std::to_string(report.bytes)}}));
  } else {
    terminal.line(fmt::format("copied {}, {}, to {}", entries_text(report.entries),
                              bytes_text(report.bytes), one_line(target)));
  }
  return kOk;
}

// --- Stats ---------------------------------------------------------------------------------------

struct Detail {
  std::string name;
  std::string value;
};

/// The `name: value` lines.
std::vector<Detail> details_of(std::string_view text) {
  std::vector<Detail> details;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const auto colon = line.find(": "); colon != line.npos) {
      details.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 2))});
    }
  }
  return details;
}

/// "log bytes" as "log_bytes".
std::string field_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) {
    return letter == ' ' ? '_' : static_cast<char>(std::tolower(letter));
  });
  return name;
}

bool is_number(std::string_view text) {
  constexpr std::size_t kDigitsMax = 18;
  return !text.empty() && text.size() <= kDigitsMax && (text == "0" || text.front() != '0') &&
         text.find_first_not_of("0123456789") == text.npos;
}

std::string json_details(const std::vector<Detail>& details) {
  Fields fields;
  for (const auto& [name, value] : details) {
    fields.emplace_back(field_name(name), is_number(value) ? value : json_string(value));
  }
  return json_object(fields);
}

void print_table(Terminal& terminal, const std::vector<Detail>& rows) {
  std::size_t width = 0;
  for (const Detail& row : rows) {
    width = std::max(width, row.name.size());
  }
  for (const Detail& row : rows) {
    terminal.line(fmt::format("{:<{}}  {}", one_line(row.name), width, one_line(row.value)));
  }
}

ExitCode run_stats(Terminal& terminal, const StoreArgs& args) {
  const auto store = open_existing_store(args.url);
  ThreadPool pool(1);
  const StoreStats stats = sync_wait(pool, store->stats());
  const std::vector<Detail> details = details_of(stats.details);
  if (args.output != Output::kTable) {
    terminal.line(json_object({{"store", json_string(redacted_url(args.url))},
                               {"entries", std::to_string(stats.entries)},
                               {"bytes", std::to_string(stats.bytes)},
                               {"last_version", std::to_string(stats.last_version)},
                               {"format", std::to_string(stats.format)},
                               {"details", json_details(details)}}));
    return kOk;
  }
  std::vector<Detail> rows{{"store", redacted_url(args.url)},
                           {"entries", std::to_string(stats.entries)},
                           {"size on disk", bytes_text(stats.bytes)},
                           {"last version", std::to_string(stats.last_version)},
                           {"format", std::to_string(stats.format)}};
  rows.insert(rows.end(), details.begin(), details.end());
  print_table(terminal, rows);
  return kOk;
}

}  // namespace

ExitCode run_store_command(Terminal& terminal, const StoreArgs& args) {
  switch (args.action) {
    case StoreAction::kCheck:
      return run_check(terminal, args);
    case StoreAction::kBackup:
      return run_backup(terminal, args);
    case StoreAction::kStats:
      return run_stats(terminal, args);
  }
  return kInternal;
}

}  // namespace holdfast::cli
