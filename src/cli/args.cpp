// SPDX-License-Identifier: Apache-2.0
#include "args.hpp"

#include <algorithm>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "examples/scenario.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kExitCodes =
    "Exit codes:\n"
    "  0   all went well\n"
    "  1   a check failed\n"
    "  64  the command line cannot be understood\n"
    "  70  an error inside the program\n"
    "  74  the output cannot be written";

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const auto& scenario : examples::scenarios()) {
    names.emplace_back(scenario.name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
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

/// "; it belongs to 'holdfast demo'", if a command has the option.
std::string belongs_to(const CLI::App& app, const std::string& option) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_option_no_throw(option) != nullptr) {
      return fmt::format("; it belongs to 'holdfast {}'", command->get_name());
    }
  }
  return {};
}

/// What is wrong with `word`, which nothing has a use for.
std::string complaint(const CLI::App& app, const std::string& word) {
  const auto commands = app.get_subcommands();
  const CLI::App& where = commands.empty() ? app : *commands.back();
  if (word.starts_with("-")) {
    const std::string name = word.substr(0, word.find('='));
    const std::string owner = commands.empty() ? belongs_to(app, name) : std::string{};
    return fmt::format("unknown option '{}'{}", name,
                       owner.empty() ? did_you_mean(name, option_names(where)) : owner);
  }
  if (commands.empty()) {
    return fmt::format("unknown command '{}'{}", word, did_you_mean(word, command_names(app)));
  }
  const auto scenario = nearest(word, scenario_names());
  return fmt::format("unexpected argument '{}'{}", word,
                     scenario ? "; did you mean '--only " + *scenario + "'?" : std::string{});
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

}  // namespace

Args parse_args(int argc, const char* const* argv) {
  CLI::App app("Holdfast: locks, limits and workflows for C++.", "holdfast");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.set_version_flag("--version", "holdfast " HOLDFAST_VERSION "\n", "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.footer(kExitCodes);
  // Words that nothing has a use for are kept, to be complained about in our own words.
  app.allow_extras();

  DemoArgs demo_args;
  CLI::App* demo = app.add_subcommand("demo", "Play the examples and check what they promise");
  demo->group("Commands")->allow_extras();
  demo->add_option("--only", demo_args.only, "Play only these")->type_name("NAME")->delimiter(',');
  demo->add_flag("--list", demo_args.list, "Print what can be played, and end");
  demo->footer(kExitCodes);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return PrintText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return PrintText{version.what()};
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  const auto extras = app.remaining(true);
  if (!extras.empty()) {
    throw UsageError(complaint(app, extras.front()));
  }
  if (!demo->parsed()) {
    throw UsageError("a command is missing, such as 'holdfast demo'");
  }
  check_scenarios(demo_args.only);
  return demo_args;
}

}  // namespace holdfast::cli
