// SPDX-License-Identifier: Apache-2.0
// Backups read a table while migrations rewrite it, in several commits each. Backups do not hold up
// each other, and none of them has a table of which a part is old and a part is new.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

using namespace std::chrono_literals;

namespace {

const std::vector<std::string> kRows{"table/ada", "table/ben", "table/cleo", "table/dan"};

// [backup]
/// The formats that it has met: one, or it is worth nothing. None, if the lock was lost meanwhile.
holdfast::Task<std::set<std::string>> back_up(holdfast::Gates& gates, holdfast::Store& store) {
  holdfast::DurableSharedMutex table = gates.shared_mutex("table");
  holdfast::DurableHold hold = co_await table.acquire_shared({.reason = "backup"});
  std::set<std::string> formats;
  for (const std::string& row : kRows) {
    const std::optional<holdfast::Entry> entry = co_await store.get(row);
    formats.insert(entry ? entry->value : "none");
  }
  // What was read counts only if the lock was held to the end: the store says whether it was.
  holdfast::Batch done;
  hold.guard(done).put("backup/last", *formats.begin());
  const holdfast::CommitOutcome outcome = co_await store.commit(std::move(done));
  if (outcome.fenced() != nullptr) {
    formats.clear();
  }
  static_cast<void>(co_await hold.release());
  co_return formats;
}
// [backup]

// [migration]
holdfast::Task<bool> migrate(holdfast::Gates& gates, holdfast::Store& store, std::string format) {
  holdfast::DurableSharedMutex table = gates.shared_mutex("table");
  holdfast::DurableHold hold = co_await table.acquire({.reason = "migration"});
  for (const std::string& row : kRows) {
    holdfast::Batch batch;
    hold.guard(batch).put(row, format);
    const holdfast::CommitOutcome outcome = co_await store.commit(std::move(batch));
    if (outcome.fenced() != nullptr) {
      co_return false;  // The lock was lost: another may be at it.
    }
  }
  const bool held_to_the_end = co_await hold.release();
  co_return held_to_the_end;
}
// [migration]

struct Tally {
  int backups = 0;
  int mixed = 0;
};

holdfast::Task<Tally> back_up_often(holdfast::Gates& gates, holdfast::Store& store) {
  Tally tally;
  for (int i = 0; i < 10; ++i) {
    const std::set<std::string> formats = co_await back_up(gates, store);
    ++tally.backups;
    tally.mixed += formats.size() == 1 ? 0 : 1;
  }
  co_return tally;
}

holdfast::Task<bool> migrate_often(holdfast::Gates& gates, holdfast::Store& store) {
  bool all_well = true;
  for (int i = 0; i < 5; ++i) {
    std::string format("format ");
    format.append(std::to_string(i));
    const bool migrated = co_await migrate(gates, store, std::move(format));
    all_well = all_well && migrated;
  }
  co_return all_well;
}

holdfast::Task<bool> run(holdfast::Store& store) {
  auto session = co_await holdfast::Session::open(store, {.ttl = 10s, .name = "backups"});
  bool well = false;
  {
    holdfast::Gates gates(*session);
    const bool migrated = co_await migrate(gates, store, "format 0");
    auto together = holdfast::all(back_up_often(gates, store), back_up_often(gates, store),
                                  migrate_often(gates, store));
    const auto [one, other, migrated_often] = co_await std::move(together);
    std::printf("%d backups, %d of them mixed\n", one.backups + other.backups,
                one.mixed + other.mixed);
    well = migrated && migrated_often && one.mixed + other.mixed == 0;
  }
  co_await session->close();
  co_return well;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::puts("usage: backups STORE_URL");
    return 64;
  }
  const auto store = holdfast::open_store(argv[1]);
  holdfast::ThreadPool pool(2);
  return holdfast::sync_wait(pool, run(*store)) ? 0 : 1;
}
