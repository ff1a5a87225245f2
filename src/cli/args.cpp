// SPDX-License-Identifier: Apache-2.0
#include "args.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "config.hpp"
#include "examples/scenario.hpp"
#include "lock_args.hpp"
#include "locks_args.hpp"
#include "option_value.hpp"
#include "own_store.hpp"
#include "state_args.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0   all went well\n"
    "  1   a check failed, or a store has faults\n"
    "  64  the command line cannot be understood, or cannot work\n"
    "  65  a store is damaged, of a newer format, or none at all\n"
    "  66  there is no such store, lock or cell\n"
    "  69  a store is busy, or cannot do that\n"
    "  70  an error inside the program\n"
    "  74  reading or writing failed, or the disk is full\n"
    "  77  no permission\n"
    "  78  a configuration file cannot be used";

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const auto& scenario : examples::scenarios()) {
    names.emplace_back(scenario.name);
  }
  return names;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

/// "store check", as far as the command line got; nothing for the program itself.
std::string path_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) {
    return {};
  }
  const std::string above = path_of(*parent);
  return above.empty() ? app.get_name() : above + " " + app.get_name();
}

const CLI::App& innermost(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : innermost(*commands.back());
}

/// A command below `app` that has the option.
const CLI::App* owner_of(const CLI::App& app, const std::string& option) {
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_option_no_throw(option) != nullptr) {
      return command;
    }
    if (const CLI::App* owner = owner_of(*command, option)) {
      return owner;
    }
  }
  return nullptr;
}

std::string option_complaint(const CLI::App& where, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (where.get_option_no_throw(name) != nullptr) {
    return fmt::format("option '{}' comes too early; write it behind '{}'", name, path_of(where));
  }
  const CLI::App* owner = owner_of(where, name);
  return fmt::format("unknown option '{}'{}", name,
                     owner == nullptr
                         ? did_you_mean(name, option_names(where))
                         : fmt::format("; it belongs to 'holdfast {}'", path_of(*owner)));
}

/// What was likely meant by a word too many.
std::string argument_hint(const CLI::App& where, const std::string& word) {
  if (where.get_option_no_throw("--only") != nullptr) {
    const auto scenario = nearest(word, scenario_names());
    return scenario ? "; did you mean '--only " + *scenario + "'?" : std::string{};
  }
  if (where.get_option_no_throw("JSON") != nullptr) {
    return "; put JSON into single quotes";
  }
  if (where.get_name() == "lock") {
    return "; write '--' in front of the command";
  }
  if (where.get_option_no_throw("--store") != nullptr && word.find(':') != word.npos) {
    return "; did you mean '--store " + word + "'?";
  }
  return {};
}

/// What is wrong with `word`, which nothing has a use for.
std::string complaint(const CLI::App& app, const std::string& word) {
  const CLI::App& where = innermost(app);
  if (word.starts_with("-")) {
    return option_complaint(where, word);
  }
  if (!commands_of(where).empty()) {
    return fmt::format("unknown command '{}'{}", word, did_you_mean(word, command_names(where)));
  }
  return fmt::format("unexpected argument '{}'{}", word, argument_hint(where, word));
}

void check_scenarios(const std::vector<std::string>& only) {
  const auto known = scenario_names();
  for (const std::string& name : only) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const auto suggestion = did_you_mean(name, known);
      throw UsageError(
          fmt::format("unknown scenario '{}'{}", name,
                      suggestion.empty() ? "; 'holdfast demo --list' shows them all" : suggestion));
    }
  }
}

constexpr const char* kNoTarget = "the target is missing: write 'holdfast store backup TARGET'";

/// The words behind 'holdfast store', before they are understood.
struct StoreWords {
  std::string url;
  std::string target;
  std::string output = "table";
};

CLI::App* add_store_command(CLI::App& store, const char* name, const char* help,
                            StoreWords& words) {
  CLI::App* command = store.add_subcommand(name, help);
  command->group("Commands")->allow_extras();
  add_store_option(*command, words.url);
  add_output_option(*command, words.output);
  command->footer(kExitCodes);
  return command;
}

CLI::App* add_store_commands(CLI::App& app, StoreWords& words) {
  CLI::App* store = app.add_subcommand("store", "Look after a store");
  store->group("Commands")->allow_extras();
  store->footer(kExitCodes);
  add_store_command(*store, "check", "Read all of a store, and say what is damaged", words);
  CLI::App* backup = add_store_command(*store, "backup", "Copy a store while others use it", words);
  backup->add_option("TARGET", words.target, "The copy; nothing may be there yet")
      ->type_name(" ")
      ->required();
  add_store_command(*store, "stats", "Say how much is in a store", words);
  return store;
}

void check_target(const std::string& target) {
  if (target.empty()) {
    throw UsageError(kNoTarget);
  }
  for (const std::string_view scheme : {"sqlite:", "file:", "memory:"}) {
    if (target.starts_with(scheme)) {
      throw UsageError(fmt::format("the target '{}' looks like a URL; give a path, such as '{}'",
                                   target, target.substr(scheme.size())));
    }
  }
}

/// CLI11 would give it to all commands that have the option, and so over what one was given.
std::string store_of_environment() {
  const char* url = std::getenv("HOLDFAST_STORE");  // NOLINT(concurrency-mt-unsafe): one thread.
  return url == nullptr ? std::string{} : url;
}

/// What `option` says, or else the environment, or else a configuration file; empty: nothing of
/// them does. Files are only read if they are asked.
std::string chosen_store(const std::string& option) {
  std::string url = option.empty() ? store_of_environment() : option;
  if (url.empty()) {
    const Config config = read_config(config_places());
    url = config.store ? config.store->value : std::string{};
  }
  return url;
}

template <typename CommandArgs>
CommandArgs at_chosen_store(CommandArgs args) {
  args.url = chosen_store(args.url);
  return args;
}

/// What configuration files say of locks, unless all of it was said on the command line.
void take_lock_defaults(const CLI::App& lock, LockWords& words) {
  const std::array options{"--lease", "--on-lost", "--grace"};
  if (std::all_of(options.begin(), options.end(),
                  [&](const char* option) { return lock.count(option) > 0; })) {
    return;
  }
  const Config config = read_config(config_places());
  const auto take = [&](const char* option, const std::optional<Setting>& setting,
                        std::string& word) {
    if (setting && lock.count(option) == 0) {
      word = setting->value;
    }
  };
  take("--lease", config.lock_lease, words.lease);
  take("--on-lost", config.lock_on_lost, words.on_lost);
  take("--grace", config.lock_grace, words.grace);
}

CLI::App* add_config_command(CLI::App& app, std::string& output) {
  CLI::App* config =
      app.add_subcommand("config", "Say which settings count, and where they are from");
  config->group("Commands")->allow_extras();
  config->footer(kExitCodes);
  CLI::App* show = config->add_subcommand("show", "Each setting, its value, and where it is from");
  show->group("Commands")->allow_extras();
  add_output_option(*show, output);
  show->footer(kExitCodes);
  return config;
}

ConfigArgs config_args(const CLI::App& config, const std::string& output) {
  if (!config.got_subcommand("show")) {
    throw UsageError("a command is missing behind 'config': show");
  }
  return {output_of(output)};
}

StoreArgs store_args(const CLI::App& store, const StoreWords& words) {
  if (store.get_subcommands().empty()) {
    throw UsageError("a command is missing behind 'store': check, backup or stats");
  }
  StoreArgs args;
  args.output = output_of(words.output);
  args.action = store.got_subcommand("check")    ? StoreAction::kCheck
                : store.got_subcommand("backup") ? StoreAction::kBackup
                                                 : StoreAction::kStats;
  if (args.action == StoreAction::kBackup) {
    check_target(words.target);
    args.target = words.target;
  }
  args.url = chosen_store(words.url);
  if (args.url.empty()) {
    args.url = own_store_url(false);
  }
  return args;
}

}  // namespace

Args parse_args(int argc, const char* const* argv) {
  CLI::App app("Holdfast: locks, limits and workflows for C++.", "holdfast");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.set_version_flag("--version", "holdfast " HOLDFAST_VERSION "\n", "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.footer(kExitCodes);
  // Words that nothing has a use for are kept, to be complained about in our own words.
  app.allow_extras();
  // A lock may have the name of a command.
  app.require_subcommand(0, 1);

  DemoArgs demo_args;
  CLI::App* demo = app.add_subcommand("demo", "Play the examples and check what they promise");
  demo->group("Commands")->allow_extras();
  demo->add_option("--only", demo_args.only, "Play only these")->type_name("NAME")->delimiter(',');
  demo->add_flag("--list", demo_args.list, "Print what can be played, and end");
  demo->footer(kExitCodes);

  StoreWords store_words;
  const CLI::App* store = add_store_commands(app, store_words);

  LockWords lock_words;
  const CLI::App* lock = add_lock_command(app, lock_words);
  // What is behind '--' is none of ours: CLI11 must not see it.
  const char* const* const end =
      std::find_if(argv, argv + argc, [](std::string_view word) { return word == "--"; });
  if (argc > 1 && std::string_view(argv[1]) == "lock" && end != argv + argc) {
    lock_words.command.assign(end + 1, argv + argc);
    argc = static_cast<int>(end - argv);
  }
  LocksWords locks_words;
  const CLI::App* locks = add_locks_command(app, locks_words, kExitCodes);
  ViewWords view_words;
  const CLI::App* explain = add_explain_command(app, view_words, kExitCodes);
  const CLI::App* graph = add_graph_command(app, view_words, kExitCodes);
  const CLI::App* top = add_top_command(app, view_words, kExitCodes);
  StateWords state_words;
  const CLI::App* state = add_state_command(app, state_words);
  std::string config_output = "table";
  const CLI::App* config = add_config_command(app, config_output);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PrintText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return PrintText{version.what()};
  } catch (const CLI::RequiredError&) {
    throw UsageError(kNoTarget);  // Nothing else is required.
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  auto extras = app.remaining(true);
  std::erase(extras, "--");  // Says that no options follow, and is kept all the same.
  if (!extras.empty()) {
    throw UsageError(complaint(app, extras.front()));
  }
  if (store->parsed()) {
    return store_args(*store, store_words);
  }
  if (lock->parsed()) {
    take_lock_defaults(*lock, lock_words);
    return at_chosen_store(lock_args(lock_words));
  }
  if (locks->parsed()) {
    return at_chosen_store(locks_args(*locks, locks_words));
  }
  if (explain->parsed()) {
    return at_chosen_store(explain_args(view_words));
  }
  if (graph->parsed()) {
    return at_chosen_store(graph_args(view_words));
  }
  if (top->parsed()) {
    return at_chosen_store(top_args(view_words));
  }
  if (state->parsed()) {
    return at_chosen_store(state_args(*state, state_words));
  }
  if (config->parsed()) {
    return config_args(*config, config_output);
  }
  if (!demo->parsed()) {
    throw UsageError("a command is missing, such as 'holdfast demo'");
  }
  check_scenarios(demo_args.only);
  return demo_args;
}

}  // namespace holdfast::cli
