// SPDX-License-Identifier: Apache-2.0
#include "state_command.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>
#include <holdfast/stored_cell.hpp>

#include "escape.hpp"
#include "json.hpp"
#include "json_value.hpp"
#include "own_store.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

namespace json = boost::json;

// As much as a store takes.
constexpr std::size_t kInputBytesMax = std::size_t{4} << 20U;

/// What has no value shows as, where no JSON can be taken for it.
constexpr const char* kNone = "(none)";

template <typename... Values>
void complain(fmt::format_string<Values...> text, Values&&... values) {
  fmt::print(stderr, "holdfast: {}\n",
             one_line(fmt::format(text, std::forward<Values>(values)...)));
}

// --- What the words mean -------------------------------------------------------------------------

Scope scope_of(const StateArgs& args) {
  const State state;  // Of no store: the keys are the same in all.
  return args.scope == "request"     ? state.request(args.id)
         : args.scope == "session"   ? state.session(args.id)
         : args.scope == "user"      ? state.user(args.id)
         : args.scope == "org"       ? state.org(args.id)
         : args.scope == "execution" ? state.execution(args.id)
         : args.scope == "workflow"  ? state.workflow(args.id)
                                     : state.global();
}

std::string scope_text(const CellPlace& place) {
  return place.id.empty() ? place.scope : fmt::format("{}:{}", place.scope, place.id);
}

/// "'cart' in user:42".
std::string cell_text(const StateArgs& args) {
  return fmt::format("'{}' in {}", args.name, scope_text({args.scope, args.id, args.name}));
}

/// All of standard input; nothing if it is too long.
std::optional<std::string> read_input() {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw StoreFailed(
          fmt::format("standard input cannot be read: {}", std::generic_category().message(errno)));
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kInputBytesMax) {
      return std::nullopt;
    }
    if (count == 0) {
      return text;
    }
  }
}

/// The value that was given; nothing, and a complaint, if it is no JSON.
std::optional<json::value> given_value(const StateArgs& args) {
  const bool from_input = args.json == "-";
  const std::optional<std::string> text = from_input ? read_input() : args.json;
  if (!text) {
    complain("standard input has more than {} bytes, and no cell holds as much", kInputBytesMax);
    return std::nullopt;
  }
  auto parsed = parse_cell_value(*text);
  if (const auto* fault = std::get_if<JsonFault>(&parsed)) {
    complain("{} is no JSON: line {}, column {}: {}", from_input ? "standard input" : "the value",
             fault->line, fault->column, fault->reason);
    return std::nullopt;
  }
  return std::get<json::value>(std::move(parsed));
}

/// Nothing if it is the user's own store, and there is none yet.
std::unique_ptr<Store> existing_store(const StateArgs& args) {
  if (!args.url.empty()) {
    return open_existing_store(args.url);
  }
  std::error_code error;
  return std::filesystem::exists(own_store_path(), error) || error
             ? open_existing_store(own_store_url(false))
             : nullptr;
}

std::unique_ptr<Store> made_store(const StateArgs& args) {
  return open_store(args.url.empty() ? own_store_url(true) : args.url);
}

ExitCode tell_no_cell(const StateArgs& args) {
  complain("there is no cell {}", cell_text(args));
  return kNoStore;
}

// --- Printing ------------------------------------------------------------------------------------

/// The fields that tell which cell it is.
Fields key_fields(const std::string& key) {
  const std::optional<CellPlace> place = place_of_cell(key);
  return {{"key", json_string(key)},
          {"scope", place ? json_string(scope_text(*place)) : "null"},
          {"name", place ? json_string(place->name) : "null"}};
}

std::string json_cell(const std::string& key, std::optional<Version> version,
                      const std::optional<json::value>& value) {
  Fields fields = key_fields(key);
  fields.emplace_back("version", version ? std::to_string(*version) : "null");
  fields.emplace_back("value", value ? json_text(*value) : "null");
  return json_object(fields);
}

std::string json_cell(const StoredCell& cell) {
  return json_cell(cell.key, cell.version, cell.value);
}

bool is_json(const StateArgs& args) {
  return args.output == Output::kJson || args.output == Output::kJsonLines;
}

/// As much of `text` as fits behind the columns before it, on a terminal.
std::string fitting(const Terminal& terminal, std::string text, std::size_t before) {
  constexpr std::size_t kLeast = 16;
  const std::size_t columns = terminal.columns();
  const std::size_t room = std::max(kLeast, columns > before ? columns - before : 0);
  if (!terminal.traits().live || text.size() <= room) {
    return text;
  }
  std::size_t end = room - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) {
    --end;  // Not in the middle of a letter.
  }
  return text.substr(0, end) + "...";
}

void print_cells(Terminal& terminal, const std::vector<StoredCell>& cells) {
  std::vector<Row> rows{{"NAME", "SCOPE", "VERSION", "VALUE"}};
  Row widest = rows.front();
  for (const StoredCell& cell : cells) {
    const std::optional<CellPlace> place = place_of_cell(cell.key);
    rows.push_back({one_line(place ? place->name : cell.key),
                    place ? one_line(scope_text(*place)) : "", std::to_string(cell.version),
                    json_text(cell.value)});
    for (std::size_t i = 0; i + 1 < widest.size(); ++i) {
      widest[i] = rows.back()[i].size() > widest[i].size() ? rows.back()[i] : widest[i];
    }
  }
  const std::size_t before = widest[0].size() + widest[1].size() + widest[2].size() + 6;
  for (Row& row : rows) {
    row.back() = fitting(terminal, std::move(row.back()), before);
  }
  print_table(terminal, rows);
}

// --- Get -----------------------------------------------------------------------------------------

ExitCode run_get(Terminal& terminal, const StateArgs& args, const std::string& key) {
  const auto store = existing_store(args);
  std::optional<StoredCell> cell;
  if (store != nullptr) {
    ThreadPool pool(1, store->clock());
    cell = sync_wait(pool, inspect_cell(*store, key));
  }
  if (!cell) {
    return tell_no_cell(args);
  }
  if (is_json(args)) {
    terminal.line(json_cell(*cell));
  } else if (args.output == Output::kTable) {
    print_cells(terminal, {*std::move(cell)});
  } else {
    terminal.line(terminal.traits().live ? indented_json_text(cell->value)
                                         : json_text(cell->value));
  }
  return kOk;
}

// --- Changes -------------------------------------------------------------------------------------

CellExpectation expectation_of(const StateArgs& args) {
  return args.if_version  ? CellExpectation::at(*args.if_version)
         : args.if_absent ? CellExpectation::absent()
                          : CellExpectation();
}

ExitCode tell_conflict(const StateArgs& args, std::optional<Version> version) {
  if (!version) {
    complain("there is no cell {}, at version {} or any other; nothing was changed",
             cell_text(args), *args.if_version);
  } else if (args.if_absent) {
    complain("{} is there already, at version {}; nothing was changed", cell_text(args), *version);
  } else {
    complain("{} is at version {}, not {}; nothing was changed", cell_text(args), *version,
             *args.if_version);
  }
  return kConflict;
}

void print_change(Terminal& terminal, const StateArgs& args, const std::string& key,
                  const CellChange& change) {
  if (is_json(args)) {
    terminal.line(json_cell(key, change.version, change.value));
  } else if (args.output == Output::kTable && change.version) {
    print_cells(terminal, {StoredCell{key, *change.version, *change.value}});
  } else {
    terminal.line(change.version ? std::to_string(*change.version) : kNone);
  }
}

/// `set` and `patch`.
ExitCode run_write(Terminal& terminal, const StateArgs& args, const std::string& key) {
  const std::optional<json::value> value = given_value(args);
  if (!value) {
    return kBadData;
  }
  // What has to be there already is in a store that exists.
  const auto store = args.if_version ? existing_store(args) : made_store(args);
  if (store == nullptr) {
    return tell_conflict(args, std::nullopt);
  }
  ThreadPool pool(1, store->clock());
  const CellExpectation expected = expectation_of(args);
  const CellChange change =
      sync_wait(pool, args.action == StateAction::kSet ? set_cell(*store, key, *value, expected)
                                                       : patch_cell(*store, key, *value, expected));
  if (!change.made) {
    return tell_conflict(args, change.version);
  }
  print_change(terminal, args, key, change);
  return kOk;
}

ExitCode run_delete(Terminal& terminal, const StateArgs& args, const std::string& key) {
  const auto store = existing_store(args);
  CellChange change;
  if (store != nullptr) {
    ThreadPool pool(1, store->clock());
    change = sync_wait(pool, erase_cell(*store, key, expectation_of(args)));
  }
  if (!change.before) {
    return tell_no_cell(args);
  }
  if (!change.made) {
    return tell_conflict(args, change.version);
  }
  if (is_json(args)) {
    Fields fields = key_fields(key);
    fields.emplace_back("deleted_version", std::to_string(*change.before));
    terminal.line(json_object(fields));
  }
  return kOk;
}

// --- List ----------------------------------------------------------------------------------------

/// Hands the pages to `take`, until there are no more or `args.limit` cells were taken. Whether
/// there are more.
template <typename Take>
bool read_cells(Store& store, const StateArgs& args, const std::string& prefix, const Take& take) {
  constexpr std::size_t kPage = 1'000;
  ThreadPool pool(1, store.clock());
  std::string after = args.after;
  std::size_t left = args.limit;
  for (;;) {
    const ScanOptions options{.after = after, .limit = std::min(left, kPage)};
    StoredCellPage page = sync_wait(pool, list_cells(store, prefix, options));
    left -= page.cells.size();
    if (page.more) {
      after = page.cells.back().key;
    }
    take(std::move(page.cells));
    if (!page.more || left == 0) {
      return page.more;
    }
  }
}

std::string listed_prefix(const StateArgs& args) {
  if (args.all_scopes) {
    return "cell/";
  }
  const Scope scope = scope_of(args);
  return args.name.empty() ? scope.prefix() : scope.key_of(args.name);
}

ExitCode run_list(Terminal& terminal, const StateArgs& args) {
  const std::string prefix = listed_prefix(args);
  const auto store = existing_store(args);
  std::vector<StoredCell> cells;
  std::string last;
  const bool more =
      store != nullptr && read_cells(*store, args, prefix, [&](std::vector<StoredCell> page) {
        last = page.empty() ? last : page.back().key;
        for (StoredCell& cell : page) {
          if (args.output == Output::kJsonLines) {
            terminal.line(json_cell(cell));
          } else {
            cells.push_back(std::move(cell));
          }
        }
      });
  if (args.output == Output::kJson) {
    std::vector<std::string> objects;
    objects.reserve(cells.size());
    for (const StoredCell& cell : cells) {
      objects.push_back(json_cell(cell));
    }
    const std::string url = store == nullptr ? own_store_url(false) : store->url();
    terminal.line(json_object({{"store", json_string(redacted_url(url))},
                               {"cells", json_array(objects)},
                               {"more", more ? "true" : "false"}}));
  } else if (args.output != Output::kJsonLines) {
    if (cells.empty()) {
      terminal.line("no cells");
    } else {
      print_cells(terminal, cells);
    }
  }
  if (more && args.output != Output::kJson) {
    complain("there are more: go on with --after '{}', or set --limit", last);
  }
  return kOk;
}

// --- Watch ---------------------------------------------------------------------------------------

void print_news(Terminal& terminal, const StateArgs& args, const std::string& key,
                const std::optional<StoredCell>& cell) {
  if (is_json(args)) {
    Fields fields = key_fields(key);
    fields.emplace_back("version", cell ? std::to_string(cell->version) : "null");
    fields.emplace_back("present", cell ? "true" : "false");
    fields.emplace_back("value", cell ? json_text(cell->value) : "null");
    terminal.line(json_object(fields));
  } else if (args.output == Output::kTable) {
    terminal.line(cell ? fmt::format("{}  {}", cell->version, json_text(cell->value)) : kNone);
  } else {
    terminal.line(cell ? json_text(cell->value) : kNone);
  }
}

Task<void> watch(Terminal& terminal, const StateArgs& args, Store& store, std::string key) {
  Watch changes = store.watch(key);
  std::optional<Version> seen;
  for (;;) {
    const std::optional<StoredCell> cell = co_await inspect_cell(store, key);
    const Version version = cell ? cell->version : 0;  // No entry has version 0.
    if (seen != version) {
      print_news(terminal, args, key, cell);
      seen = version;
    }
    // Also for cells whose keys begin with this one.
    co_await changes.changed();
  }
}

}  // namespace

ExitCode run_state_command(Terminal& terminal, const StateArgs& args) {
  if (args.action == StateAction::kList) {
    return run_list(terminal, args);
  }
  const std::string key = scope_of(args).key_of(args.name);
  switch (args.action) {
    case StateAction::kGet:
      return run_get(terminal, args, key);
    case StateAction::kSet:
    case StateAction::kPatch:
      return run_write(terminal, args, key);
    case StateAction::kDelete:
      return run_delete(terminal, args, key);
    case StateAction::kList:
    case StateAction::kWatch:
      break;
  }
  return kInternal;
}

ExitCode watch_state(Terminal& terminal, const StateArgs& args, const std::stop_token& stop) {
  const std::string key = scope_of(args).key_of(args.name);
  const auto store = existing_store(args);
  if (store == nullptr) {
    throw NoSuchStore(fmt::format("there is no store at {} yet; the first 'state set' makes it",
                                  own_store_path().string()));
  }
  ThreadPool pool(1, store->clock());
  try {
    sync_wait(pool, watch(terminal, args, *store, key), {}, stop);
  } catch (const Cancelled&) {
    return kOk;  // The signal, or the output that is gone, says how it ended.
  }
  return kOk;
}

}  // namespace holdfast::cli
