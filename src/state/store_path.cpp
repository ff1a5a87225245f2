// SPDX-License-Identifier: Apache-2.0
// Changes of cells in a store: a line in the process, compare-and-swap between processes.
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/state_error.hpp>
#include <holdfast/this_task.hpp>

#include "cell_slot.hpp"
#include "envelope.hpp"
#include "settle.hpp"

namespace holdfast::detail {

namespace {

/// One try to change a cell from what was read.
struct Attempt {
  Batch batch;
  LostWrite write;  // What it will have been if its answer gets lost.
  bool writes = false;
};

Attempt attempt_on(const CellSlot& slot, std::optional<Entry> base) {
  Attempt attempt;
  if (base) {
    attempt.batch.require_version(slot.key(), base->version);
  } else {
    attempt.batch.require_absent(slot.key());
  }
  attempt.write.base = std::move(base);
  return attempt;
}

Attempt attempt_to_erase(const CellSlot& slot, std::optional<Entry> base) {
  Attempt attempt = attempt_on(slot, std::move(base));
  attempt.writes = attempt.write.base.has_value();
  if (attempt.writes) {
    attempt.batch.erase(slot.key());
  }
  return attempt;
}

Task<CellValue> next_of(CellSlot& slot, CellMutator& mutator, const CellValue& current) {
  const RunningMutation running(slot);
  CellValue next;
  if (mutator.suspends()) {
    Task<CellValue> making = mutator.next_later(current);
    next = co_await making;
  } else {
    next = mutator.next(current);
  }
  co_return next;
}

Task<Attempt> attempt_to_change(CellSlot& slot, CellMutator& mutator, std::optional<Entry> base) {
  Envelope envelope;
  CellValue current;
  if (base) {
    envelope = Envelope(*base);
    current = envelope.value();
  }
  Attempt attempt = attempt_on(slot, std::move(base));
  attempt.write.base_operation = envelope.operation();
  Task<CellValue> making = next_of(slot, mutator, current);
  const CellValue next = co_await making;
  // A batch with nothing but its condition asks whether the version is still the current one.
  attempt.writes = next && next != current;
  if (attempt.writes) {
    check_storable(*next, slot.key());
    attempt.write.operation = slot.core().next_operation();
    attempt.batch.put(slot.key(), std::move(envelope).with(*next, attempt.write.operation));
  }
  co_return attempt;
}

/// Nothing if the answer got lost; then `lost` says how.
Task<std::optional<CommitOutcome>> commit_or_lose_sight(Store& store, Batch batch,
                                                        std::exception_ptr& lost) {
  std::optional<CommitOutcome> seen;
  try {
    seen = co_await store.commit(std::move(batch));
  } catch (const OutcomeUnknown&) {
    lost = std::current_exception();
  }
  co_return seen;
}

/// What is there after a commit whose answer got lost; nothing if the store no longer says.
Task<std::optional<std::optional<Entry>>> read_back(Store& store, const std::string& key) {
  std::optional<std::optional<Entry>> read;
  try {
    read = co_await store.get(key);
  } catch (const Error&) {
    read.reset();
  }
  co_return read;
}

/// True once the change is there, false if it did not happen: then `entry` is what is there.
Task<bool> try_once(CellSlot& slot, Attempt attempt, std::optional<Entry>& entry) {
  Store& store = *slot.core().store();
  std::exception_ptr lost;
  const std::optional<CommitOutcome> outcome =
      co_await commit_or_lose_sight(store, std::move(attempt.batch), lost);
  if (outcome && outcome->committed() != nullptr) {
    co_return true;
  }
  if (outcome) {
    entry = outcome->conflict()->current;
    co_return false;
  }
  std::optional<std::optional<Entry>> now = co_await read_back(store, slot.key());
  Settled settled = Settled::kUnknown;
  if (now) {
    settled = attempt.writes ? settle(attempt.write, *now) : Settled::kDidNot;
  }
  if (settled == Settled::kUnknown) {
    std::rethrow_exception(lost);
  }
  entry = *std::move(now);
  co_return settled == Settled::kHappened;
}

/// `mutator` null: erases. Whether anything was written.
Task<bool> change_in_store(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator) {
  refuse_reentry(*slot);
  StateCore& core = slot->core();
  const Hold turn = co_await slot->line().lock();
  std::optional<Entry> entry = co_await core.store()->get(slot->key());
  for (std::uint32_t attempts = 1;; ++attempts) {
    Attempt attempt;
    if (mutator == nullptr) {
      attempt = attempt_to_erase(*slot, entry);
    } else {
      Task<Attempt> making = attempt_to_change(*slot, *mutator, entry);
      attempt = co_await making;
    }
    const bool writes = attempt.writes;
    Task<bool> trying = try_once(*slot, std::move(attempt), entry);
    const bool done = co_await trying;
    if (done) {
      co_return writes;
    }
    if (attempts >= core.options().attempts_max) {
      throw ConcurrentModification(slot->key(), attempts);
    }
    // The first retry goes at once, on what the conflict brought; whoever is in the way again is
    // left alone for a while, and what is there after that has to be read.
    const Duration pause = core.pause_after(attempts);
    if (pause > Duration::zero()) {
      co_await this_task::sleep_for(pause);
      entry = co_await core.store()->get(slot->key());
    }
  }
}

}  // namespace

Task<void> mutate_in_store(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator) {
  Task<bool> change = change_in_store(std::move(slot), std::move(mutator));
  co_await change;
}

Task<bool> erase_in_store(std::shared_ptr<CellSlot> slot) {
  return change_in_store(std::move(slot), nullptr);
}

Task<CellValue> read_from_store(std::shared_ptr<CellSlot> slot) {
  const std::optional<Entry> entry = co_await slot->core().store()->get(slot->key());
  CellValue value;
  if (entry) {
    value = Envelope(*entry).value();
  }
  co_return value;
}

}  // namespace holdfast::detail
