// SPDX-License-Identifier: Apache-2.0
#include "graph_command.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

/// A holder whose command, known by another name, waits for a lock.
struct Command {
  std::string parent;
  std::string child;
};

std::vector<Command> commands_of(const Locks& locks) {
  std::vector<Command> commands;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      for (const Wait& wait : waits_of(locks, holder)) {
        if (wait.waiter->holder != holder.holder) {
          commands.push_back({holder.holder, wait.waiter->holder});
        }
      }
    }
  }
  return commands;
}

void print_text(Terminal& terminal, const Locks& locks) {
  const std::vector<Wait> waits = all_waits(locks);
  for (const Wait& wait : waits) {
    terminal.line(fmt::format("{} waits for '{}', held by {}: {}", one_line(wait.waiter->holder),
                              one_line(wait.gate->name), holders_text(*wait.gate),
                              why_text(wait.waiter->why, locks.now)));
  }
  for (const Command& command : commands_of(locks)) {
    terminal.line(fmt::format("{} waits for its command {}", one_line(command.parent),
                              one_line(command.child)));
  }
  if (waits.empty()) {
    terminal.line("nobody waits");
  }
}

// --- Graphviz ------------------------------------------------------------------------------------

/// In quotes.
std::string dot_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : one_line(text)) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
    }
    quoted += letter;
  }
  return quoted + '"';
}

/// Gives each name a word of its own: names of locks and of holders may be the same.
class DotNodes {
 public:
  DotNodes(Terminal& terminal, std::string_view letter, std::string_view shape)
      : terminal_(terminal), letter_(letter), shape_(shape) {}

  std::string of(const std::string& name) {
    const auto [node, is_new] = nodes_.emplace(name, fmt::format("{}{}", letter_, nodes_.size()));
    if (is_new) {
      terminal_.line(
          fmt::format("  {} [shape={}, label={}];", node->second, shape_, dot_string(name)));
    }
    return node->second;
  }

 private:
  Terminal& terminal_;
  std::string_view letter_;
  std::string_view shape_;
  std::map<std::string, std::string> nodes_;
};

void print_dot(Terminal& terminal, const Locks& locks) {
  terminal.line("digraph locks {");
  terminal.line("  rankdir=LR;");
  DotNodes gates(terminal, "lock", "box");
  DotNodes parties(terminal, "party", "ellipse");
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      const std::string lock = gates.of(gate.name);
      const std::string party = parties.of(holder.holder);
      terminal.line(fmt::format("  {} -> {} [label=\"held by\"];", lock, party));
    }
    for (const GateWaiterInfo& waiter : gate.waiters) {
      const std::string party = parties.of(waiter.holder);
      const std::string lock = gates.of(gate.name);
      terminal.line(fmt::format("  {} -> {} [label=\"waits for\"];", party, lock));
    }
  }
  for (const Command& command : commands_of(locks)) {
    const std::string parent = parties.of(command.parent);
    const std::string child = parties.of(command.child);
    terminal.line(fmt::format("  {} -> {} [style=dashed, label=\"its command\"];", parent, child));
  }
  terminal.line("}");
}

void print_json(Terminal& terminal, const Locks& locks, const std::string& url) {
  std::vector<std::string> waits;
  for (const Wait& wait : all_waits(locks)) {
    waits.push_back(json_object({{"waiter", json_string(wait.waiter->holder)},
                                 {"lock", json_string(wait.gate->name)},
                                 {"held_by", json_strings(names_of_holders(*wait.gate))},
                                 {"position", std::to_string(wait.position)},
                                 {"waited_ms", json_ms(locks.now - wait.waiter->asked_at)},
                                 {"why", json_string(word_of(wait.waiter->why.kind))}}));
  }
  std::vector<std::string> commands;
  for (const Command& command : commands_of(locks)) {
    commands.push_back(json_object(
        {{"parent", json_string(command.parent)}, {"command", json_string(command.child)}}));
  }
  terminal.line(json_object({{"store", json_string(redacted_url(url))},
                             {"waits", json_array(waits)},
                             {"commands", json_array(commands)}}));
}

}  // namespace

ExitCode run_graph_command(Terminal& terminal, const GraphArgs& args) {
  Locks locks;
  std::string url = args.url;
  if (const std::unique_ptr<Store> store = existing_store(args.url)) {
    ThreadPool pool(1, store->clock());
    locks = sync_wait(pool, read_locks(*store));
    url = store->url();
  }
  switch (args.form) {
    case GraphForm::kText:
      print_text(terminal, locks);
      break;
    case GraphForm::kDot:
      print_dot(terminal, locks);
      break;
    case GraphForm::kJson:
      print_json(terminal, locks, url);
      break;
  }
  return kOk;
}

}  // namespace holdfast::cli
