// SPDX-License-Identifier: Apache-2.0
#include "graph_command.hpp"

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/run_inspection.hpp>
#include <holdfast/spawn.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "party.hpp"
#include "waits.hpp"

namespace holdfast::cli {

namespace {

/// One who waits for another that is known by another name: a process for its command, a run for
/// its child.
struct Link {
  std::string parent;
  std::string child;

  auto operator<=>(const Link&) const = default;
};

/// What is drawn.
struct Graph {
  Locks locks;
  std::vector<Link> commands;
  std::set<Link> children;                   ///< By the ids of the runs.
  std::map<std::string, std::string> types;  ///< Of all runs in it, by their ids.
};

std::vector<Link> commands_of(const Locks& locks) {
  std::vector<Link> commands;
  for (const GateInfo& gate : locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (party_of(locks, holder).is_run()) {
        continue;
      }
      for (const Wait& wait : waits_of(locks, holder)) {
        if (wait.waiter->holder != holder.holder) {
          commands.push_back({holder.holder, wait.waiter->holder});
        }
      }
    }
  }
  return commands;
}

/// The runs that wait for `child`, and for each other, up to the first.
Task<void> add_parents(Store& store, Graph& graph, RunInfo child) {
  while (!child.parent_id.empty()) {
    std::optional<RunInfo> parent = co_await find_run(store, child.parent_id);
    if (!parent || parent->state != RunState::kRunning ||
        !graph.children.insert({parent->id, child.id}).second) {
      co_return;
    }
    graph.types[parent->id] = parent->type;
    child = *std::move(parent);
  }
}

/// The runs that the run waits for, and they for others.
Task<void> add_children(Store& store, Graph& graph, std::string id) {
  std::vector<std::string> open{std::move(id)};
  while (!open.empty()) {
    const std::string parent = std::move(open.back());
    open.pop_back();
    const std::optional<RunInspection> seen = co_await inspect_run(store, parent);
    if (!seen) {
      continue;
    }
    for (const RunWaitInfo& wait : seen->waits) {
      if (wait.kind == RunWaitInfo::Kind::kChild &&
          graph.children.insert({parent, wait.name}).second) {
        graph.types[wait.name] = wait.child_type;
        open.push_back(wait.name);
      }
    }
  }
}

Task<Graph> read_graph(Store& store) {
  Graph graph;
  graph.locks = co_await read_locks(store);
  graph.commands = commands_of(graph.locks);
  for (const auto& [uid, run] : graph.locks.runs) {
    graph.types[run.id] = run.type;
    co_await add_parents(store, graph, run);
  }
  for (const GateInfo& gate : graph.locks.gates) {
    for (const GateHolderInfo& holder : gate.holders) {
      if (party_of(graph.locks, holder).is_run()) {
        co_await add_children(store, graph, holder.holder);
      }
    }
  }
  co_return graph;
}

std::string run_text(const Graph& graph, const std::string& id) {
  const auto type = graph.types.find(id);
  return type == graph.types.end()
             ? "run " + one_line(id)
             : fmt::format("run {} ({})", one_line(id), one_line(type->second));
}

void print_text(Terminal& terminal, const Graph& graph) {
  const Locks& locks = graph.locks;
  const std::vector<Wait> waits = all_waits(locks);
  for (const Wait& wait : waits) {
    terminal.line(fmt::format("{} waits for '{}', held by {}: {}",
                              full_name(party_of(locks, *wait.waiter)), one_line(wait.gate->name),
                              holders_text(locks, *wait.gate),
                              why_text(wait.waiter->why, locks.now)));
  }
  for (const Link& command : graph.commands) {
    terminal.line(fmt::format("{} waits for its command {}", one_line(command.parent),
                              one_line(command.child)));
  }
  for (const Link& child : graph.children) {
    terminal.line(fmt::format("{} waits for its child, {}", run_text(graph, child.parent),
                              run_text(graph, child.child)));
  }
  if (waits.empty() && graph.children.empty()) {
    terminal.line("nobody waits");
  }
}

// --- Graphviz ------------------------------------------------------------------------------------

/// For between quotes.
std::string dot_text(std::string_view text) {
  std::string quoted;
  for (const char letter : one_line(text)) {
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
    }
    quoted += letter;
  }
  return quoted;
}

/// Gives each name a word of its own: a lock, a process and a run may have the same name.
class DotNodes {
 public:
  DotNodes(Terminal& terminal, std::string_view letter, std::string_view shape)
      : terminal_(terminal), letter_(letter), shape_(shape) {}

  /// `below` is written under the name.
  std::string of(const std::string& name, const std::string& below = {}) {
    const auto [node, is_new] = nodes_.emplace(name, fmt::format("{}{}", letter_, nodes_.size()));
    if (is_new) {
      terminal_.line(fmt::format("  {} [shape={}, label=\"{}{}{}\"];", node->second, shape_,
                                 dot_text(name), below.empty() ? "" : "\\n", dot_text(below)));
    }
    return node->second;
  }

 private:
  Terminal& terminal_;
  std::string_view letter_;
  std::string_view shape_;
  std::map<std::string, std::string> nodes_;
};

class DotGraph {
 public:
  DotGraph(Terminal& terminal, const Graph& graph) : terminal_(terminal), graph_(graph) {}

  void print() {
    terminal_.line("digraph locks {");
    terminal_.line("  rankdir=LR;");
    for (const GateInfo& gate : graph_.locks.gates) {
      print_gate(gate);
    }
    for (const Link& command : graph_.commands) {
      const std::string parent = processes_.of(command.parent);
      const std::string child = processes_.of(command.child);
      terminal_.line(
          fmt::format("  {} -> {} [style=dashed, label=\"its command\"];", parent, child));
    }
    for (const Link& link : graph_.children) {
      const std::string parent = node_of_run(link.parent);
      const std::string child = node_of_run(link.child);
      terminal_.line(fmt::format("  {} -> {} [style=dashed, label=\"its child\"];", parent, child));
    }
    terminal_.line("}");
  }

 private:
  void print_gate(const GateInfo& gate) {
    for (const GateHolderInfo& holder : gate.holders) {
      const std::string lock = gates_.of(gate.name);
      const std::string party = node_of(party_of(graph_.locks, holder));
      terminal_.line(fmt::format("  {} -> {} [label=\"held by\"];", lock, party));
    }
    for (const GateWaiterInfo& waiter : gate.waiters) {
      const std::string party = node_of(party_of(graph_.locks, waiter));
      const std::string lock = gates_.of(gate.name);
      terminal_.line(fmt::format("  {} -> {} [label=\"waits for\"];", party, lock));
    }
  }

  std::string node_of(const Party& party) {
    return party.is_run() ? node_of_run(party.name) : processes_.of(party.name);
  }
  std::string node_of_run(const std::string& id) {
    const auto type = graph_.types.find(id);
    return runs_.of(id, type == graph_.types.end() ? "" : type->second);
  }

  Terminal& terminal_;
  const Graph& graph_;
  DotNodes gates_{terminal_, "lock", "box"};
  DotNodes processes_{terminal_, "party", "ellipse"};
  DotNodes runs_{terminal_, "run", "hexagon"};
};

// --- For programs --------------------------------------------------------------------------------

std::string json_waits(const Locks& locks) {
  std::vector<std::string> waits;
  for (const Wait& wait : all_waits(locks)) {
    waits.push_back(json_object({{"waiter", json_string(wait.waiter->holder)},
                                 {"kind", json_string(word_of(party_of(locks, *wait.waiter)))},
                                 {"lock", json_string(wait.gate->name)},
                                 {"held_by", json_strings(names_of_holders(*wait.gate))},
                                 {"position", std::to_string(wait.position)},
                                 {"waited_ms", json_ms(locks.now - wait.waiter->asked_at)},
                                 {"why", json_string(word_of(wait.waiter->why.kind))}}));
  }
  return json_array(waits);
}

template <typename Links>
std::string json_links(const Links& links, const std::string& child_is) {
  std::vector<std::string> objects;
  objects.reserve(links.size());
  for (const Link& link : links) {
    objects.push_back(
        json_object({{"parent", json_string(link.parent)}, {child_is, json_string(link.child)}}));
  }
  return json_array(objects);
}

void print_json(Terminal& terminal, const Graph& graph, const std::string& url) {
  std::vector<std::string> runs;
  runs.reserve(graph.types.size());
  for (const auto& [id, type] : graph.types) {
    runs.push_back(json_object({{"id", json_string(id)}, {"type", json_string(type)}}));
  }
  terminal.line(json_object({{"store", json_string(redacted_url(url))},
                             {"waits", json_waits(graph.locks)},
                             {"commands", json_links(graph.commands, "command")},
                             {"children", json_links(graph.children, "child")},
                             {"runs", json_array(runs)}}));
}

}  // namespace

ExitCode run_graph_command(Terminal& terminal, const GraphArgs& args) {
  Graph graph;
  std::string url = args.url;
  if (const std::unique_ptr<Store> store = existing_store(args.url)) {
    ThreadPool pool(1, store->clock());
    graph = sync_wait(pool, read_graph(*store));
    url = store->url();
  }
  switch (args.form) {
    case GraphForm::kText:
      print_text(terminal, graph);
      break;
    case GraphForm::kDot:
      DotGraph(terminal, graph).print();
      break;
    case GraphForm::kJson:
      print_json(terminal, graph, url);
      break;
  }
  return kOk;
}

}  // namespace holdfast::cli
