// SPDX-License-Identifier: Apache-2.0
#include "state_args.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "option_value.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kStateFooter =
    "A cell has a name in a scope: --scope global (the default), or request:ID, session:ID, "
    "user:ID,\n"
    "org:ID; of workflows execution:ID (a run and its children) or workflow:TYPE.\n"
    "\n"
    "Exit codes:\n"
    "  0   all went well\n"
    "  64  the command line cannot be understood\n"
    "  65  the JSON is bad, or the store is damaged, of a newer format, or none at all\n"
    "  66  there is no such cell, or no such store\n"
    "  69  the store is busy, or others changed the cell again and again\n"
    "  74  reading or writing failed, or the disk is full\n"
    "  75  the cell is not at the version that was asked for; nothing was changed\n"
    "  77  no permission\n"
    "  78  a configuration file cannot be used";

constexpr std::int64_t kCellsMax = 1'000'000;
constexpr std::string_view kCellKeys = "cell/";

struct Action {
  const char* name;
  const char* arguments;
  const char* help;
  StateAction action;
};

constexpr std::array<Action, 6> kActions{{
    {"get", "KEY", "Print the value of a cell", StateAction::kGet},
    {"set", "KEY JSON|-", "Make it a value, and print its version", StateAction::kSet},
    {"patch", "KEY JSON|-", "Merge members into it, and print its version", StateAction::kPatch},
    {"delete", "KEY", "Forget it", StateAction::kDelete},
    {"list", "[PREFIX]", "Print the cells of a scope", StateAction::kList},
    {"watch", "KEY", "Print its value now, and whenever it changes", StateAction::kWatch},
}};

/// CLI11 takes what we complain about ourselves for what need not be given.
class UsageFormatter final : public CLI::Formatter {
 public:
  explicit UsageFormatter(const Action& action) : action_(action) {}
  [[nodiscard]] std::string make_usage(const CLI::App* /*app*/,
                                       std::string /*name*/) const override {
    return fmt::format("Usage: holdfast state {} [OPTIONS] {}\n", action_.name, action_.arguments);
  }

 private:
  const Action& action_;
};

bool changes(StateAction action) {
  return action == StateAction::kSet || action == StateAction::kPatch ||
         action == StateAction::kDelete;
}

void add_arguments(CLI::App& command, StateAction action, StateWords& words) {
  if (action == StateAction::kList) {
    command.add_option("PREFIX", words.name, "Only those whose names begin so")->type_name(" ");
  } else {
    command.add_option("KEY", words.name, "The name of the cell")->type_name(" ");
  }
  if (action == StateAction::kSet || action == StateAction::kPatch) {
    command.add_option("JSON", words.json, "The value, or - to read it from standard input")
        ->type_name(" ");
  }
}

void add_options(CLI::App& command, StateAction action, StateWords& words) {
  command.add_option("--scope", words.scope, "Where it lives, such as user:42 (global)")
      ->type_name("SCOPE");
  if (changes(action)) {
    command
        .add_option("--if-version", words.if_version,
                    "Only if it is at this version, as 'get' says")
        ->type_name("N");
  }
  if (action == StateAction::kSet) {
    command.add_flag("--if-absent", words.if_absent, "Only if there is none yet");
  }
  if (action == StateAction::kList) {
    command.add_flag("--all", words.all, "Of every scope");
    command.add_option("--limit", words.limit, "No more than so many (1000)")->type_name("N");
    command.add_option("--after", words.after, "Only those behind this one, by its 'key'")
        ->type_name("KEY");
  }
  command.add_option("-o,--output", words.output, "table, json or jsonl")->type_name("FORM");
  add_store_option(command, words.url);
}

void read_scope(StateArgs& args, const std::string& word) {
  const std::vector<std::string> known{"request", "session",   "user",
                                       "org",     "execution", "workflow"};
  const auto colon = word.find(':');
  args.scope = word.substr(0, colon);
  const bool has_id = colon != word.npos && colon + 1 < word.size();
  if (word == "global" || word.empty()) {
    args.scope = "global";
    return;
  }
  if (args.scope == "global") {
    throw UsageError(fmt::format("'--scope {}': there is one global scope, without an ID", word));
  }
  if (std::find(known.begin(), known.end(), args.scope) == known.end()) {
    const auto suggestion = nearest(args.scope, known);
    throw UsageError(fmt::format("'--scope {}' is unknown; {}", word,
                                 suggestion
                                     ? fmt::format("did you mean '{}:ID'?", *suggestion)
                                     : "write global, request:ID, session:ID, user:ID, org:ID, "
                                       "execution:ID or workflow:TYPE"));
  }
  if (!has_id) {
    throw UsageError(fmt::format("'--scope {0}' lacks whose it is; write {0}:ID", args.scope));
  }
  args.id = word.substr(colon + 1);
}

void read_list(StateArgs& args, const CLI::App& command, const StateWords& words) {
  args.all_scopes = words.all;
  args.after = words.after;
  args.limit = static_cast<std::size_t>(
      number_of("--limit", words.limit, 1, static_cast<std::int64_t>(kCellsMax)));
  if (words.all && command.count("--scope") > 0) {
    throw UsageError("'--all' and '--scope' exclude each other");
  }
  if (words.all && !words.name.empty()) {
    throw UsageError("'--all' lists every scope, and a prefix is one of names in a scope");
  }
  if (!words.after.empty() && !words.after.starts_with(kCellKeys)) {
    throw UsageError(
        fmt::format("'--after {}' is no key of a cell, as '-o json' shows it", words.after));
  }
}

void read_conditions(StateArgs& args, const StateWords& words) {
  args.if_absent = words.if_absent;
  if (!words.if_version.empty()) {
    args.if_version = static_cast<Version>(
        number_of("--if-version", words.if_version, 1, std::numeric_limits<std::int64_t>::max()));
  }
  if (args.if_absent && args.if_version) {
    throw UsageError("'--if-version' and '--if-absent' exclude each other");
  }
}

}  // namespace

CLI::App* add_state_command(CLI::App& app, StateWords& words) {
  CLI::App* state = app.add_subcommand("state", "Read and change the cells of a store");
  state->group("Commands")->allow_extras();
  state->footer(kStateFooter);
  for (const Action& action : kActions) {
    CLI::App* command = state->add_subcommand(action.name, action.help);
    command->group("Commands")->allow_extras();
    command->formatter(std::make_shared<UsageFormatter>(action));
    add_arguments(*command, action.action, words);
    add_options(*command, action.action, words);
    command->footer(kStateFooter);
  }
  return state;
}

StateArgs state_args(const CLI::App& state, const StateWords& words) {
  const auto commands = state.get_subcommands();
  if (commands.empty()) {
    throw UsageError("a command is missing behind 'state': get, set, patch, delete, list or watch");
  }
  const CLI::App& command = *commands.front();
  StateArgs args;
  args.action = std::find_if(kActions.begin(), kActions.end(), [&](const Action& one) {
                  return command.get_name() == one.name;
                })->action;
  read_scope(args, words.scope);
  args.url = words.url;
  args.name = words.name;
  if (!words.output.empty()) {
    args.output = output_of(words.output);
  }
  const bool has_json = args.action == StateAction::kSet || args.action == StateAction::kPatch;
  if (args.action == StateAction::kList) {
    read_list(args, command, words);
  } else if (args.name.empty()) {
    throw UsageError(fmt::format("the name of the cell is missing: write 'holdfast state {} KEY{}'",
                                 command.get_name(), has_json ? " JSON" : ""));
  }
  if (has_json && command.count("JSON") == 0) {
    throw UsageError(fmt::format(
        "the value is missing: write 'holdfast state {} {} JSON', or - to read it from standard "
        "input",
        command.get_name(), args.name));
  }
  args.json = words.json;
  read_conditions(args, words);
  return args;
}

}  // namespace holdfast::cli
