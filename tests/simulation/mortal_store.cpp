// SPDX-License-Identifier: Apache-2.0
#include "mortal_store.hpp"

#include <utility>

#include <run.pb.h>

#include "store/memory_disk.hpp"

namespace holdfast::testing {

namespace {

constexpr const char* kDead = "the process of this store is dead";
constexpr std::string_view kOwners = "partition/";

}  // namespace

MortalStore::MortalStore(const std::shared_ptr<MemoryDisk>& disk, Tally& tally,
                         std::map<std::string, std::string>& owners, std::uint64_t seed)
    : disk_(disk),
      generation_(disk->state().generation()),
      near_(open_memory_store(disk)),
      tally_(tally),
      owners_(owners),
      dice_(seed) {
  disk_->state().add_watches(watches_);
}

MortalStore::~MortalStore() { die(); }

void MortalStore::die() {
  if (!std::exchange(dead_, true)) {
    // What was written is in the hands of the machine, which goes on.
    disk_->state().sync_all(generation_);
    disk_->state().remove_watches(watches_);
    watches_->end(std::make_exception_ptr(StoreFailed(kDead)));
  }
}

void MortalStore::doom_at(std::uint64_t commits, std::function<void()> doom) {
  commits_left_ = commits;
  doom_ = std::move(doom);
}

void MortalStore::check_alive() const {
  if (dead_) {
    throw StoreFailed(kDead);
  }
}

void MortalStore::check_reachable() {
  check_alive();
  constexpr std::uint64_t kParts = 1'000'000;
  if (busy_chance > 0 && dice_.below(kParts) < static_cast<std::uint64_t>(busy_chance * kParts)) {
    throw StoreBusy("the store cannot be reached, by chance");
  }
}

Task<StoreTime> MortalStore::time() {
  check_reachable();
  const StoreTime now = co_await near_->time();
  co_return now;
}

Task<std::optional<Entry>> MortalStore::do_get(std::string key, Read read) {
  check_reachable();
  std::optional<Entry> entry = co_await near_->get(key, read);
  co_return entry;
}

Task<Page> MortalStore::do_scan(Range range, Read read) {
  check_reachable();
  const ScanOptions options{range.after, range.limit, read};
  Page page = co_await near_->scan(range.prefix, options);
  co_return page;
}

Task<CommitOutcome> MortalStore::do_commit(Batch batch, Wait wait) {
  check_alive();
  ++tally_.commits;
  std::function<void()> doom;
  if (commits_left_ > 0 && --commits_left_ == 0) {
    doom = std::exchange(doom_, nullptr);
  }
  if (doom && dice_.one_in(2)) {
    doom();
    throw OutcomeUnknown(kDead);
  }
  const Batch kept = batch;
  if (before_commit) {
    before_commit(kept);
  }
  std::optional<CommitOutcome> outcome;
  if (wait == Wait::kForDisk) {
    outcome = co_await near_->commit(std::move(batch));
  } else {
    outcome = co_await near_->apply(std::move(batch));
  }
  if (outcome->committed() != nullptr) {
    note_owners(kept);
    if (after_commit && disk_->state().generation() == generation_) {
      after_commit(kept);
    }
  }
  tally_.refusals += outcome->fenced() != nullptr ? 1U : 0U;
  if (doom) {
    doom();
    throw OutcomeUnknown(kDead);
  }
  check_alive();
  co_return *std::move(outcome);
}

/// Who took a partition from whom.
void MortalStore::note_owners(const Batch& batch) {
  for (const Batch::Write& write : batch.writes()) {
    if (!write.key.starts_with(kOwners) || !write.value) {
      continue;
    }
    record::RunPartition owner;
    static_cast<void>(owner.ParseFromString(std::string(*write.value)));
    std::string& before = owners_[std::string(write.key)];
    if (owner.session_key().empty()) {
      ++tally_.handovers;
    } else if (!before.empty() && before != owner.session_key()) {
      ++tally_.takeovers;
    }
    before = owner.session_key();
  }
}

Task<void> MortalStore::do_until_durable(Version version) {
  check_alive();
  co_await near_->until_durable(version);
  check_alive();
}

bool MortalStore::do_is_durable(Version version) {
  check_alive();
  return near_->is_durable(version);
}

std::shared_ptr<detail::WatchedPrefix> MortalStore::do_watch(std::string prefix) {
  check_alive();
  disk_->state().check_alive(generation_);
  return watches_->add(std::move(prefix));
}

}  // namespace holdfast::testing
