// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/ledger.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <holdfast/store_error.hpp>

namespace holdfast::testing {

namespace {

std::string shown(const Entry& entry) {
  return entry.key + " at version " + std::to_string(entry.version) + " with " +
         std::to_string(entry.value.size()) + " bytes";
}

bool holds(const Batch::Condition& condition, const Entry* there) {
  return condition.kind == Batch::Kind::kAbsent
             ? there == nullptr
             : there != nullptr && there->version == condition.version;
}

}  // namespace

Ledger::Id Ledger::enter(Batch& batch, std::string marker) {
  const Id id = records_.size();
  if (marker.empty()) {
    marker = "batch/" + std::to_string(1'000'000 + id);
  }
  batch.put(marker, marker);
  records_.push_back({.marker = std::move(marker), .batch = batch, .life = life_});
  return id;
}

void Ledger::give(Record& record, Version version) {
  record.version = version;
  if (version <= highest_then_) {
    faults_.push_back(record.marker + " has version " + std::to_string(version) +
                      ", and that or a higher one was given in an earlier life: " +
                      std::to_string(highest_then_));
  }
  highest_ = std::max(highest_, version);
}

void Ledger::applied(Id id, const CommitOutcome& outcome) {
  Record& record = records_.at(id);
  if (const Committed* committed = outcome.committed()) {
    give(record, committed->version);
  } else {
    record.status = Status::kRefused;
  }
}

void Ledger::acknowledged(Id id) {
  Record& record = records_.at(id);
  if (record.status != Status::kRefused) {
    record.status = Status::kPromised;
  }
}

void Ledger::acknowledged(Id id, const CommitOutcome& outcome) {
  applied(id, outcome);
  acknowledged(id);
  const Conflict* const conflict = outcome.conflict();
  if (conflict != nullptr && conflict->current) {
    saw(*conflict->current);
  }
}

void Ledger::threw(Id id) {
  const auto nothing_happened = [&] { records_.at(id).status = Status::kRefused; };
  try {
    throw;
  } catch (const StoreFull&) {
    nothing_happened();
  } catch (const StoreBusy&) {
    nothing_happened();
  } catch (const StoreFailed&) {
    nothing_happened();
  } catch (const Error&) {
    // Unknown, as it was.
  }
}

void Ledger::saw(const Entry& entry) { seen_.push_back(entry.version); }

void Ledger::begin_life() {
  ++life_;
  highest_then_ = highest_;
}

std::size_t Ledger::acknowledged_count() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(records_.begin(), records_.end(),
                    [](const Record& record) { return record.status == Status::kPromised; }));
}

void Ledger::find_markers(const State& there, Audit& audit) {
  for (Record& record : records_) {
    const auto marker = there.find(record.marker);
    record.found = marker != there.end();
    if (!record.found) {
      audit.lost += record.status == Status::kPromised ? 1 : 0;
      continue;
    }
    if (record.status == Status::kRefused) {
      audit.faults.push_back(record.marker + " is there, and nothing should have happened");
    }
    if (record.version != 0 && record.version != marker->second.version) {
      audit.faults.push_back("given as version " + std::to_string(record.version) + ", found as " +
                             shown(marker->second));
    }
    record.version = marker->second.version;
    highest_ = std::max(highest_, record.version);
  }
}

void Ledger::replay(const Record& record, State& state, Audit& audit) {
  for (const Batch::Condition& condition : record.batch.conditions()) {
    const auto there = state.find(condition.key);
    if (!holds(condition, there == state.end() ? nullptr : &there->second)) {
      audit.faults.push_back(record.marker + " is there, but its condition on " +
                             std::string(condition.key) + " did not hold");
    }
  }
  for (const Batch::Write& write : record.batch.writes()) {
    std::string key(write.key);
    if (write.value) {
      Entry entry{key, std::string(*write.value), record.version};
      state.insert_or_assign(std::move(key), std::move(entry));
    } else {
      state.erase(key);
    }
  }
}

void Ledger::check_order(const std::vector<const Record*>& found, Audit& audit) const {
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[i - 1]->version == found[i]->version) {
      audit.faults.push_back("two batches have version " + std::to_string(found[i]->version));
    }
  }
  const Version newest = found.empty() ? 0 : found.back()->version;
  for (const Record& record : records_) {
    const bool given = record.status != Status::kRefused && record.version != 0;
    if (given && !record.found && record.version < newest) {
      audit.faults.push_back(record.marker + " with version " + std::to_string(record.version) +
                             " is missing, and the later " + std::to_string(newest) + " is there");
    }
  }
}

Ledger::Audit Ledger::audit(const std::vector<Entry>& entries) {
  Audit audit;
  State there;
  for (const Entry& entry : entries) {
    there.emplace(entry.key, entry);
  }
  find_markers(there, audit);

  std::vector<const Record*> found;
  for (const Record& record : records_) {
    if (record.found) {
      found.push_back(&record);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Record* a, const Record* b) { return a->version < b->version; });
  check_order(found, audit);
  State expected;
  std::set<Version> versions;
  for (const Record* record : found) {
    replay(*record, expected, audit);
    versions.insert(record->version);
  }
  if (expected != there) {
    const auto [is, should] =
        std::mismatch(there.begin(), there.end(), expected.begin(), expected.end());
    audit.faults.push_back("a batch is not whole: found " +
                           (is == there.end() ? "nothing" : shown(is->second)) + " instead of " +
                           (should == expected.end() ? "nothing" : shown(should->second)));
  }
  audit.lost += static_cast<std::size_t>(std::count_if(
      seen_.begin(), seen_.end(), [&](Version version) { return !versions.contains(version); }));
  audit.found = found.size();

  seen_.clear();
  for (Record& record : records_) {
    record.status = record.found ? Status::kPromised : Status::kRefused;
  }
  std::move(faults_.begin(), faults_.end(), std::back_inserter(audit.faults));
  faults_.clear();
  return audit;
}

std::string text_of(const std::vector<std::string>& faults) {
  constexpr std::size_t kShownMax = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShownMax); ++i) {
    text += "  " + faults[i] + "\n";
  }
  return text;
}

}  // namespace holdfast::testing
