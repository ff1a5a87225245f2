// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/actors.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/spawn.hpp>

namespace holdfast::testing {

namespace {

constexpr std::uint64_t kKeys = 10;

std::string random_key(Dice& dice) { return "key/" + std::to_string(dice.below(kKeys)); }

std::string random_value(Dice& dice) {
  constexpr std::array<std::size_t, 6> kSizes = {0, 8, 30, 200, 1'500, 9'000};
  // The small ones more often: what a run costs is bytes.
  const std::size_t size = kSizes.at(std::min(dice.below(6), dice.below(6)));
  std::string value = std::to_string(dice.next());
  value.resize(size, static_cast<char>('a' + dice.below(26)));
  return value;
}

Task<void> require_something(Store& store, Ledger& ledger, Dice& dice, Batch& batch) {
  const std::string key = random_key(dice);
  const Read read = dice.one_in(2) ? Read::kDurable : Read::kApplied;
  const std::optional<Entry> entry = co_await store.get(key, read);
  if (!entry) {
    batch.require_absent(key);
    co_return;
  }
  batch.require_version(key, entry->version);
  if (read == Read::kDurable) {
    ledger.saw(*entry);
  }
}

Task<void> commit_one(Store& store, Ledger& ledger, Batch batch) {
  const Ledger::Id id = ledger.enter(batch);
  try {
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    ledger.acknowledged(id, outcome);
  } catch (const Error&) {
    ledger.threw(id);
    throw;
  }
}

struct Applied {
  Ledger::Id id;
  Version version;
};

/// Up to `count`, each in the state that those before it made; as many as go well.
Task<std::vector<Applied>> apply_chain(Store& store, Ledger& ledger, Dice& dice,
                                       std::uint64_t count) {
  std::vector<Applied> applied;
  for (; count > 0; --count) {
    Batch batch = random_writes(dice);
    const Ledger::Id id = ledger.enter(batch);
    try {
      const CommitOutcome outcome = co_await store.apply(std::move(batch));
      ledger.applied(id, outcome);
      applied.push_back({id, outcome.committed()->version});
    } catch (const Error&) {
      ledger.threw(id);
      break;
    }
  }
  co_return applied;
}

Task<void> apply_some(Store& store, Ledger& ledger, Dice& dice) {
  const std::uint64_t count = 1 + dice.below(4);
  const std::vector<Applied> chain = co_await apply_chain(store, ledger, dice, count);
  bool all = chain.size() == count;
  // A full disk may have taken some and refused others: each is asked for.
  for (const auto& [id, version] : chain) {
    try {
      co_await store.until_durable(version);
      ledger.acknowledged(id);
    } catch (const Error&) {
      ledger.threw(id);
      all = false;
    }
  }
  if (!all) {
    throw Closed("no more of this");
  }
}

Task<void> play_round(Store& store, Ledger& ledger, Dice& dice) {
  if (dice.one_in(3)) {
    co_await apply_some(store, ledger, dice);
    co_return;
  }
  Batch batch = random_writes(dice);
  if (dice.one_in(2)) {
    co_await require_something(store, ledger, dice, batch);
  }
  co_await commit_one(store, ledger, std::move(batch));
}

Task<void> act(Store& store, Ledger& ledger, std::uint64_t seed, const Play by) {
  Dice dice(seed);
  for (unsigned round = 0; round < by.rounds; ++round) {
    try {
      co_await play_round(store, ledger, dice);
    } catch (const Error&) {
      if (!by.go_on_after_error) {
        co_return;
      }
    }
  }
}

Task<std::vector<Entry>> scan_all(Store& store) {
  std::vector<Entry> all;
  Page page;
  do {
    const std::string after = all.empty() ? std::string{} : all.back().key;
    page = co_await store.scan("", {.after = after});
    std::move(page.entries.begin(), page.entries.end(), std::back_inserter(all));
  } while (page.more);
  co_return all;
}

}  // namespace

Batch random_writes(Dice& dice) {
  Batch batch;
  for (std::uint64_t count = 1 + dice.below(3); count > 0; --count) {
    const std::string key = random_key(dice);
    if (dice.one_in(4)) {
      batch.erase(key);
    } else {
      batch.put(key, random_value(dice));
    }
  }
  return batch;
}

void play(Stage& stage, Store& store, Ledger& ledger, const Play& by) {
  Dice seeds(by.seed);
  std::vector<Spawned<void>> tasks;
  for (unsigned i = 0; i < by.tasks; ++i) {
    tasks.push_back(spawn(stage, act(store, ledger, seeds.next(), by)));
  }
  stage.drive_until([&tasks] {
    return std::all_of(tasks.begin(), tasks.end(), [](const auto& task) { return task.ended(); });
  });
  for (Spawned<void>& task : tasks) {
    task.get();
  }
}

std::vector<Entry> read_all(Executor& executor, Store& store) {
  return sync_wait(executor, scan_all(store));
}

}  // namespace holdfast::testing
