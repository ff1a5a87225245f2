// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <holdfast/store.hpp>

namespace holdfast::conformance {

/// Adds `times` to the counter under `key`, one by one, by compare-and-swap.
inline Task<void> increment(Store& store, std::string key, int times) {
  std::optional<Entry> current = co_await store.get(key);
  for (int done = 0; done < times;) {
    Batch batch;
    if (current) {
      batch.require_version(key, current->version);
    } else {
      batch.require_absent(key);
    }
    std::string next = std::to_string(current ? std::stoi(current->value) + 1 : 1);
    batch.put(key, next);
    CommitOutcome outcome = co_await store.commit(std::move(batch));
    if (const Committed* committed = outcome.committed()) {
      current = Entry{key, std::move(next), committed->version};
      ++done;
    } else {
      current = outcome.conflict()->current;
    }
  }
}

/// Tries to be the first to make each of the keys `prefix`0, `prefix`1 and so on, with `name` as
/// the value; how many it made.
inline Task<int> race_for_absent(Store& store, std::string prefix, std::string name, int rounds) {
  int won = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string key = prefix;
    key.append(std::to_string(round));
    Batch batch;
    batch.require_absent(key).put(key, name);
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    won += outcome.committed() != nullptr ? 1 : 0;
  }
  co_return won;
}

}  // namespace holdfast::conformance
