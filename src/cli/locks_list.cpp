// SPDX-License-Identifier: Apache-2.0
#include "locks_list.hpp"

#include <string>
#include <vector>

#include <fmt/core.h>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/open_store.hpp>

#include "escape.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "lock_page.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

void print_list(Terminal& terminal, const LocksArgs& args, const Locks& locks,
                const std::string& url) {
  if (args.output == Output::kTable) {
    if (locks.gates.empty()) {
      terminal.line("no locks");
    } else {
      print_table(terminal, list_rows(locks));
    }
    return;
  }
  std::vector<std::string> objects;
  objects.reserve(locks.gates.size());
  for (const GateInfo& gate : locks.gates) {
    objects.push_back(json_lock(locks, gate));
  }
  if (args.output == Output::kJson) {
    terminal.line(
        json_object({{"store", json_string(redacted_url(url))}, {"locks", json_array(objects)}}));
    return;
  }
  for (const std::string& object : objects) {
    terminal.line(object);
  }
}

}  // namespace

Task<ExitCode> list_locks(Terminal& terminal, const LocksArgs& args, Store& store) {
  const Locks locks = co_await read_locks(store);
  print_list(terminal, args, locks, store.url());
  co_return kOk;
}

void list_no_locks(Terminal& terminal, const LocksArgs& args) {
  print_list(terminal, args, {}, args.url);
}

Task<ExitCode> show_lock(Terminal& terminal, const LocksArgs& args, Store& store) {
  const Locks locks = co_await read_lock(store, args.name);
  if (locks.gates.empty()) {
    const ExitCode code = co_await tell_no_such_lock(&store, args.name);
    co_return code;
  }
  const GateInfo& gate = locks.gates.front();
  if (args.output != Output::kTable) {
    terminal.line(json_lock(locks, gate));
    co_return kOk;
  }
  terminal.line(
      fmt::format("{}: {}", terminal.paint(Colour::kBold, one_line(gate.name)), summary_of(gate)));
  if (!gate.holders.empty()) {
    print_table(terminal, holder_rows(locks, gate), "  ");
  }
  if (!gate.waiters.empty()) {
    print_table(terminal, waiter_rows(locks, gate), "  ");
  }
  co_return kOk;
}

}  // namespace holdfast::cli
