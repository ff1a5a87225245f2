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
  CellValue value;  // What it makes of the cell.
  bool writes = false;
};

std::optional<Version> version_of(const std::optional<Entry>& entry) {
  return entry ? std::optional(entry->version) : std::nullopt;
}

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

/// `always`: also writes what makes no difference.
Task<Attempt> attempt_to_change(CellSlot& slot, CellMutator& mutator, std::optional<Entry> base,
                                bool always) {
  Envelope envelope;
  CellValue current;
  if (base) {
    envelope = Envelope(*base);
    current = envelope.value();
  }
  Attempt attempt = attempt_on(slot, std::move(base));
  attempt.write.base_operation = envelope.operation();
  Task<CellValue> making = next_of(slot, mutator, current);
  attempt.value = co_await making;
  // A batch with nothing but its condition asks whether the version is still the current one.
  attempt.writes = attempt.value && (always || attempt.value != current);
  if (attempt.writes) {
    check_storable(*attempt.value, slot.key());
    attempt.write.operation = slot.core().next_operation();
    attempt.batch.put(slot.key(),
                      std::move(envelope).with(*attempt.value, attempt.write.operation));
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

/// The version that the cell has by the change; nothing if it did not happen: then `entry` is what
/// is there.
Task<std::optional<Version>> try_once(CellSlot& slot, Attempt& attempt,
                                      std::optional<Entry>& entry) {
  Store& store = *slot.core().store();
  std::exception_ptr lost;
  const std::optional<CommitOutcome> outcome =
      co_await commit_or_lose_sight(store, std::move(attempt.batch), lost);
  if (outcome && outcome->committed() != nullptr) {
    co_return outcome->committed()->version;
  }
  if (outcome) {
    entry = outcome->conflict()->current;
    co_return std::nullopt;
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
  std::optional<Version> version;
  if (settled == Settled::kHappened) {
    version = entry ? entry->version : 0;
  }
  co_return version;
}

}  // namespace

Task<CellChange> change_in_store(std::shared_ptr<CellSlot> slot,
                                 std::shared_ptr<CellMutator> mutator, CellExpectation expected) {
  refuse_reentry(*slot);
  StateCore& core = slot->core();
  const Hold turn = co_await slot->line().lock();
  std::optional<Entry> entry = co_await core.store()->get(slot->key());
  for (std::uint32_t attempts = 1;; ++attempts) {
    CellChange change;
    change.before = version_of(entry);
    if (!expected.holds(change.before)) {
      change.version = change.before;
      co_return change;
    }
    Attempt attempt;
    if (mutator == nullptr) {
      attempt = attempt_to_erase(*slot, entry);
    } else {
      Task<Attempt> making = attempt_to_change(*slot, *mutator, entry, !expected.is_anything());
      attempt = co_await making;
    }
    Task<std::optional<Version>> trying = try_once(*slot, attempt, entry);
    const std::optional<Version> version = co_await trying;
    if (version) {
      change.made = true;
      if (attempt.value) {
        change.version = attempt.writes ? version : change.before;
        change.value = std::move(attempt.value);
      }
      co_return change;
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

Task<void> mutate_in_store(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator) {
  Task<CellChange> changing = change_in_store(std::move(slot), std::move(mutator), {});
  co_await changing;
}

Task<bool> erase_in_store(std::shared_ptr<CellSlot> slot) {
  Task<CellChange> changing = change_in_store(std::move(slot), nullptr, {});
  const CellChange change = co_await changing;
  co_return change.before.has_value();
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
