// SPDX-License-Identifier: Apache-2.0
#include "locks_command.hpp"

#include <memory>
#include <utility>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>

#include "lock_facts.hpp"
#include "locks_change.hpp"
#include "locks_history.hpp"
#include "locks_list.hpp"

namespace holdfast::cli {

namespace {

Task<ExitCode> run_with(Terminal& terminal, const LocksArgs& args, Store& store) {
  switch (args.action) {
    case LocksAction::kList:
      return list_locks(terminal, args, store);
    case LocksAction::kShow:
      return show_lock(terminal, args, store);
    case LocksAction::kHistory:
      return show_history(terminal, args, store);
    case LocksAction::kRelease:
      return release_lock(terminal, args, store);
    default:
      return change_lock(terminal, args, store);
  }
}

}  // namespace

ExitCode run_locks_command(Terminal& terminal, const LocksArgs& args) {
  const std::unique_ptr<Store> store = existing_store(args.url);
  if (store == nullptr) {
    if (args.action == LocksAction::kList) {
      list_no_locks(terminal, args);
      return kOk;
    }
    ThreadPool pool(1);
    return sync_wait(pool, tell_no_such_lock(nullptr, args.name));
  }
  ThreadPool pool(1, store->clock());
  return sync_wait(pool, run_with(terminal, args, *store));
}

}  // namespace holdfast::cli
