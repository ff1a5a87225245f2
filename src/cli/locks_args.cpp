// SPDX-License-Identifier: Apache-2.0
#include "locks_args.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include <fmt/core.h>
#include <holdfast/gate.hpp>

#include "duration.hpp"
#include "option_value.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

struct Action {
  LocksAction action;
  const char* word;
  const char* help;
};

constexpr std::array kActions{
    Action{LocksAction::kShow, "show", "All about one of them"},
    Action{LocksAction::kHistory, "history", "Who held it before, and what operators did to it"},
    Action{LocksAction::kRelease, "release", "Take it away from who holds it"},
    Action{LocksAction::kSet, "set", "Change its capacity, or how long its history is kept"},
    Action{LocksAction::kPause, "pause", "Let nobody in; who asks waits"},
    Action{LocksAction::kDrain, "drain", "Let nobody in; who asks is refused"},
    Action{LocksAction::kResume, "resume", "Let people in again"},
    Action{LocksAction::kDisableSlot, "disable-slot", "Give a slot to nobody any more"},
    Action{LocksAction::kEnableSlot, "enable-slot", "Give it out again"},
};

bool is_change(LocksAction action) {
  return action != LocksAction::kList && action != LocksAction::kShow &&
         action != LocksAction::kHistory;
}

bool is_of_slot(LocksAction action) {
  return action == LocksAction::kDisableSlot || action == LocksAction::kEnableSlot;
}

void add_common_options(CLI::App& command, LocksWords& words, const char* footer) {
  add_store_option(command, words.url);
  add_output_option(command, words.output);
  command.footer(footer);
}

void add_own_options(CLI::App& command, LocksAction action, LocksWords& words) {
  command.add_option("NAME", words.name, "The lock")->type_name(" ");
  if (is_of_slot(action)) {
    command.add_option("SLOT", words.slot, "Its number, from 0, or its name")->type_name(" ");
  }
  if (action == LocksAction::kHistory) {
    command.add_option("--limit", words.limit, "No more than the last N (20)")->type_name("N");
    command.add_flag("--changes", words.changes, "Only what operators did");
  }
  if (action == LocksAction::kRelease) {
    command.add_option("--fence", words.fence, "The hold with this fence")->type_name("N");
    command.add_option("--holder", words.holder, "The hold of this one; a part of it will do")
        ->type_name("TEXT");
    command.add_flag("--yes", words.yes, "Do not ask");
  }
  if (action == LocksAction::kSet) {
    command
        .add_option("--capacity", words.capacity,
                    "So many at once from now on; 'defined': as its users say")
        ->type_name("N");
    command
        .add_option("--keep-history", words.keep_history,
                    "Keep what has ended for so long; 'default': 30d")
        ->type_name("TIME");
  }
  if (is_change(action)) {
    command.add_option("--reason", words.reason, "Why; kept with the change")->type_name("TEXT");
    command.add_option("--as", words.by, "Who; kept with the change (your login name@host)")
        ->type_name("TEXT");
  }
}

LocksAction action_of(const CLI::App& locks) {
  for (const Action& one : kActions) {
    if (locks.got_subcommand(one.word)) {
      return one.action;
    }
  }
  return LocksAction::kList;
}

void check_words(LocksAction action, const LocksWords& words) {
  for (const Action& one : kActions) {
    if (one.action == action &&
        (words.name.empty() || (is_of_slot(action) && words.slot.empty()))) {
      throw UsageError(fmt::format("the {} is missing: write 'holdfast locks {} NAME{}'",
                                   words.name.empty() ? "name" : "slot", one.word,
                                   is_of_slot(action) ? " SLOT" : ""));
    }
  }
  if (action == LocksAction::kRelease && words.reason.empty()) {
    throw UsageError("'--reason TEXT' is missing: say why the lock is taken away");
  }
  if (!words.fence.empty() && !words.holder.empty()) {
    throw UsageError("'--fence' and '--holder' exclude each other");
  }
  if (action == LocksAction::kSet && words.capacity.empty() && words.keep_history.empty()) {
    throw UsageError("what is to be set? Give '--capacity N' or '--keep-history TIME'");
  }
}

void understand_settings(const LocksWords& words, LocksArgs& args) {
  args.sets_capacity = !words.capacity.empty();
  if (args.sets_capacity && words.capacity != "defined") {
    constexpr auto kMost = static_cast<std::int64_t>(kGateCapacityMax);
    args.capacity = static_cast<std::uint64_t>(number_of("--capacity", words.capacity, 1, kMost));
  }
  args.sets_history = !words.keep_history.empty();
  if (args.sets_history && words.keep_history != "default") {
    args.keep_history = time_of("--keep-history", words.keep_history, std::chrono::milliseconds(1));
  }
}

}  // namespace

CLI::App* add_locks_command(CLI::App& app, LocksWords& words, const char* footer) {
  CLI::App* locks = app.add_subcommand("locks", "Say who holds locks, and who waits; change them");
  locks->group("Commands")->allow_extras()->require_subcommand(0, 1);
  add_common_options(*locks, words, footer);
  for (const Action& one : kActions) {
    CLI::App* command = locks->add_subcommand(one.word, one.help);
    command->group("Commands")->allow_extras();
    add_own_options(*command, one.action, words);
    add_common_options(*command, words, footer);
  }
  return locks;
}

LocksArgs locks_args(const CLI::App& locks, const LocksWords& words) {
  constexpr auto kNumberMax = std::numeric_limits<std::int64_t>::max();
  LocksArgs args;
  args.action = action_of(locks);
  check_words(args.action, words);
  args.output = output_of(words.output);
  args.url = words.url;
  args.name = words.name;
  args.limit = static_cast<std::size_t>(
      number_of("--limit", words.limit, 1, static_cast<std::int64_t>(2 * kGateGrantsKept)));
  args.only_changes = words.changes;
  if (!words.fence.empty()) {
    args.fence = static_cast<std::uint64_t>(number_of("--fence", words.fence, 0, kNumberMax));
  }
  args.holder = words.holder;
  args.yes = words.yes;
  args.slot = words.slot;
  understand_settings(words, args);
  args.by = words.by;
  args.reason = words.reason;
  return args;
}

// --- Explain, graph and top ----------------------------------------------------------------------

namespace {

CLI::App* add_view(CLI::App& app, const char* name, const char* help, ViewWords& words,
                   const char* footer) {
  CLI::App* command = app.add_subcommand(name, help);
  command->group("Commands")->allow_extras();
  add_store_option(*command, words.url);
  command->footer(footer);
  return command;
}

void add_form(CLI::App& command, ViewWords& words) {
  command.add_option("-o,--output", words.output, "text (the default) or json")->type_name("FORM");
}

bool is_json(const std::string& word) {
  if (word != "text" && word != "json") {
    const auto suggestion = did_you_mean(word, {"text", "json"});
    throw UsageError(fmt::format("unknown form '{}' of output{}", word,
                                 suggestion.empty() ? "; write text or json" : suggestion));
  }
  return word == "json";
}

}  // namespace

CLI::App* add_explain_command(CLI::App& app, ViewWords& words, const char* footer) {
  CLI::App* command =
      add_view(app, "explain", "Say why someone waits, and for whom", words, footer);
  command->add_option("WHAT", words.what, "A lock, or a holder; a part of its name will do")
      ->type_name(" ");
  add_form(*command, words);
  return command;
}

CLI::App* add_graph_command(CLI::App& app, ViewWords& words, const char* footer) {
  CLI::App* command = add_view(app, "graph", "Show who waits for whom", words, footer);
  command->add_flag("--dot", words.dot, "For Graphviz");
  add_form(*command, words);
  return command;
}

CLI::App* add_top_command(CLI::App& app, ViewWords& words, const char* footer) {
  CLI::App* command = add_view(app, "top", "Watch the locks", words, footer);
  command->add_flag("--once", words.once, "Print them once, and end");
  return command;
}

ExplainArgs explain_args(const ViewWords& words) {
  if (words.what.empty()) {
    throw UsageError("what is to be explained? Write 'holdfast explain NAME', a lock or a holder");
  }
  return {.what = words.what, .url = words.url, .json = is_json(words.output)};
}

GraphArgs graph_args(const ViewWords& words) {
  const bool json = is_json(words.output);
  if (json && words.dot) {
    throw UsageError("'--dot' and '-o json' exclude each other");
  }
  return {.url = words.url,
          .form = json        ? GraphForm::kJson
                  : words.dot ? GraphForm::kDot
                              : GraphForm::kText};
}

TopArgs top_args(const ViewWords& words) { return {.url = words.url, .once = words.once}; }

}  // namespace holdfast::cli
