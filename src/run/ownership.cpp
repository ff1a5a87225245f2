// SPDX-License-Identifier: Apache-2.0
#include "ownership.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "gate/session_rules.hpp"
#include "run_rows.hpp"
#include "stable_hash.hpp"

namespace holdfast::detail {

namespace {

/// How soon one that has too many looks again for one with nothing in hand.
constexpr Duration kBusyInterval = std::chrono::seconds(1);

}  // namespace

Ownership::Ownership(std::shared_ptr<RunWorld> world, std::string queue)
    : world_(std::move(world)), queue_(std::move(queue)) {}

std::string Ownership::own_key() const { return engines_of(queue_).append(world_->session.id()); }

Task<void> Ownership::join() {
  record::RunEngine engine;
  engine.set_format(kRunFormat);
  engine.set_session_key(world_->session.key());
  Batch batch;
  batch.put(own_key(), engine.SerializeAsString());
  static_cast<void>(co_await world_->session.commit(std::move(batch)));
}

Task<void> Ownership::leave() {
  // As long as it seems to take part, the others leave it its share.
  for (bool again = true; again;) {
    again = false;
    try {
      Batch batch;
      batch.erase(own_key());
      static_cast<void>(co_await world_->store.commit(std::move(batch)));
    } catch (const Error& error) {
      again = error.remedy() == Remedy::kTryAgain || error.remedy() == Remedy::kFindOut;
      if (!again) {
        throw;
      }
    }
    if (again) {
      co_await busy_pause();
    }
  }
}

/// Those that are dead are forgotten.
Task<Ownership::Engines> Ownership::count_engines() {
  Engines engines;
  Batch dead;
  const Page page = co_await world_->store.scan(engines_of(queue_), {.read = Read::kApplied});
  for (const Entry& entry : page.entries) {
    const auto engine = read_row<record::RunEngine>(entry, "the engine");
    const std::optional<Entry> session =
        co_await world_->store.get(engine.session_key(), Read::kApplied);
    const StoreTime now = co_await world_->store.time();
    if (liveness(session, now) != Liveness::kLive) {
      dead.erase(entry.key);
      continue;
    }
    ++engines.count;
    if (entry.key != own_key()) {
      const StoreTime expiry = read_session(*session, now).expires;
      engines.next_expiry = std::min(engines.next_expiry.value_or(expiry), expiry);
    }
  }
  if (dead.size() > 0) {
    static_cast<void>(co_await world_->store.apply(std::move(dead)));
  }
  co_return engines;
}

Task<std::optional<StoreTime>> Ownership::balance() {
  const Engines engines = co_await count_engines();
  const std::size_t count = std::max<std::size_t>(engines.count, 1);
  const std::size_t share = (kPartitionsPerQueue + count - 1) / count;
  std::optional<StoreTime> look_again = engines.next_expiry;
  co_await take_back();
  std::size_t mine = tenures().size();
  // Not all begin with the same one, so that they meet seldom.
  const auto first = static_cast<std::uint32_t>(stable_hash(world_->session.id()));
  for (std::uint32_t i = 0; i < kPartitionsPerQueue && mine < share; ++i) {
    const std::uint32_t partition = (first + i) % kPartitionsPerQueue;
    if (tenure_of(partition) != nullptr) {
      continue;
    }
    const bool taken = co_await take(partition);
    mine += taken ? 1 : 0;
  }
  for (const std::shared_ptr<Tenure>& tenure : tenures()) {
    if (mine > share && tenure->is_quiet()) {
      co_await tenure->hand_over();
      --mine;
    }
  }
  if (mine > share) {
    const StoreTime now = co_await world_->store.time();
    look_again = now + kBusyInterval;
  }
  co_return look_again;
}

/// What the store takes for ours and was given up here, or not known to be taken: as long as this
/// session lives, nobody else can take it.
Task<void> Ownership::take_back() {
  const std::string prefix = owners_of(queue_);
  const Page owners = co_await world_->store.scan(prefix, {.read = Read::kApplied});
  for (const Entry& entry : owners.entries) {
    const auto owner = read_row<record::RunPartition>(entry, "the partition of runs");
    const std::uint32_t partition = partition_in(entry.key, prefix);
    if (owner.session_key() == world_->session.key() && tenure_of(partition) == nullptr) {
      static_cast<void>(co_await take(partition));
    }
  }
}

Task<bool> Ownership::take(std::uint32_t partition) {
  std::shared_ptr<Tenure> tenure = co_await Tenure::take(world_, PartitionKeys(queue_, partition));
  const bool is_taken = tenure != nullptr;
  if (is_taken) {
    const std::lock_guard lock(mutex_);
    tenures_[partition] = std::move(tenure);
  }
  co_return is_taken;
}

Task<void> Ownership::hand_over() {
  for (const std::shared_ptr<Tenure>& tenure : tenures()) {
    co_await tenure->hand_over();
  }
}

std::shared_ptr<Tenure> Ownership::tenure_of(std::uint32_t partition) const {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Tenure>& tenure = tenures_[partition];
  return tenure != nullptr && !tenure->is_over() ? tenure : nullptr;
}

std::vector<std::shared_ptr<Tenure>> Ownership::tenures() const {
  std::vector<std::shared_ptr<Tenure>> all;
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Tenure>& tenure : tenures_) {
    if (tenure != nullptr && !tenure->is_over()) {
      all.push_back(tenure);
    }
  }
  return all;
}

std::shared_ptr<Tenure> Ownership::next_tenure(std::size_t in_a_row) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t i = 0; i <= kPartitionsPerQueue; ++i) {
    const std::shared_ptr<Tenure>& tenure = tenures_[next_ % kPartitionsPerQueue];
    const bool is_ours = tenure != nullptr && !tenure->is_over();
    if (is_ours && given_in_a_row_ < in_a_row) {
      ++given_in_a_row_;
      return tenure;
    }
    ++next_;
    given_in_a_row_ = 0;
  }
  return nullptr;
}

}  // namespace holdfast::detail
