// SPDX-License-Identifier: Apache-2.0
#include "cell_slot.hpp"

#include <algorithm>
#include <array>

#include <holdfast/detail/check.hpp>
#include <holdfast/state_error.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

std::string random_hex() {
  constexpr int kWords = 4;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device device;
  std::string hex;
  for (int i = 0; i < kWords; ++i) {
    std::uint32_t word = device();
    for (int digit = 0; digit < 8; ++digit, word >>= 4) {
      hex += kDigits[word & 15];
    }
  }
  return hex;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

// --- StateCore -----------------------------------------------------------------------------------

StateCore::StateCore(Store* store, const StateOptions& options)
    : store_(store),
      options_(options),
      process_(random_hex()),
      random_(options.seed ? *options.seed : random_seed()) {}

std::shared_ptr<CellSlot> StateCore::slot(std::string key) {
  const std::lock_guard lock(mutex_);
  Known& known = slots_[key];
  std::shared_ptr<CellSlot> slot = known.slot.lock();
  if (slot == nullptr) {
    slot = std::make_shared<CellSlot>(shared_from_this(), std::move(key));
    known.slot = slot;
  }
  return slot;
}

std::size_t StateCore::size() const {
  const std::lock_guard lock(mutex_);
  return slots_.size();
}

void StateCore::keep(const std::shared_ptr<CellSlot>& slot, bool kept) {
  const std::lock_guard lock(mutex_);
  if (!closed_) {
    slots_.at(slot->key()).kept = kept ? slot : nullptr;
  }
}

void StateCore::close() {
  // Slots that go with this come back to forget(), so not under the mutex.
  std::vector<std::shared_ptr<CellSlot>> let_go;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  let_go.reserve(slots_.size());
  for (auto& [key, known] : slots_) {
    let_go.push_back(std::move(known.kept));
  }
}

void StateCore::forget(const std::string& key) noexcept {
  const std::lock_guard lock(mutex_);
  // Under the same key there may be a new one already.
  const auto known = slots_.find(key);
  if (known != slots_.end() && known->second.slot.expired()) {
    slots_.erase(known);
  }
}

std::string StateCore::next_operation() {
  const std::lock_guard lock(mutex_);
  std::string operation = process_;
  return operation.append("-").append(std::to_string(++operations_));
}

Duration StateCore::pause_after(std::uint32_t attempts) {
  if (attempts < 2) {
    return Duration::zero();
  }
  Duration longest = options_.back_off_min;
  for (std::uint32_t i = 2; i < attempts && longest < options_.back_off_max; ++i) {
    longest *= 2;
  }
  longest = std::min(longest, options_.back_off_max);
  const std::lock_guard lock(mutex_);
  return Duration(std::uniform_int_distribution<Duration::rep>(0, longest.count())(random_));
}

// --- CellSlot ------------------------------------------------------------------------------------

CellValue CellSlot::value() const {
  const std::lock_guard lock(mutex_);
  return value_;
}

std::pair<CellValue, std::uint64_t> CellSlot::state() const {
  const std::lock_guard lock(mutex_);
  return {value_, writes_};
}

void CellSlot::put(CellValue value) {
  const bool kept = value.has_value();
  {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    ++writes_;
    std::erase_if(watchers_, [](const std::weak_ptr<MemoryWatcher>& weak) {
      const std::shared_ptr<MemoryWatcher> watcher = weak.lock();
      if (watcher != nullptr) {
        watcher->closed = Hold();  // Under the mutex: then it is free when it is closed again.
      }
      return watcher == nullptr;
    });
  }
  core_->keep(shared_from_this(), kept);
}

bool CellSlot::written_since(std::uint64_t seen, MemoryWatcher& watcher) {
  const std::lock_guard lock(mutex_);
  if (writes_ != seen) {
    return true;
  }
  if (!watcher.closed) {
    std::optional<Hold> hold = watcher.gate.try_lock();
    HOLDFAST_CHECK(hold.has_value(), "a watch of a cell is used by two tasks at a time");
    watcher.closed = *std::move(hold);
  }
  return false;
}

void CellSlot::add(const std::shared_ptr<MemoryWatcher>& watcher) {
  const std::lock_guard lock(mutex_);
  watchers_.push_back(watcher);
}

// --- Re-entry ------------------------------------------------------------------------------------

void refuse_reentry(const CellSlot& slot) {
  StateCore& core = slot.core();
  const std::lock_guard lock(core.mutex_);
  if (slot.running_ == nullptr) {
    return;
  }
  const TaskContext* inside = TaskContext::current();
  while (inside != nullptr) {
    if (inside == slot.running_) {
      throw ReentrantMutation("the cell " + printable(slot.key()) +
                              " was to be changed inside its own update function, which would wait "
                              "for itself; make both changes in one function");
    }
    const auto called = core.callers_.find(inside);
    inside = called != core.callers_.end() ? called->second : inside->parent();
  }
}

RunningMutation::RunningMutation(CellSlot& slot) : slot_(slot) {
  const std::lock_guard lock(slot_.core().mutex_);
  slot_.running_ = TaskContext::current();
}

RunningMutation::~RunningMutation() {
  const std::lock_guard lock(slot_.core().mutex_);
  slot_.running_ = nullptr;
}

void CallerLink::join() {
  const std::lock_guard lock(core_.mutex_);
  if (caller_ != nullptr) {
    runner_ = TaskContext::current();
    core_.callers_.emplace(runner_, caller_);
  }
}

void CallerLink::cut() noexcept {
  const std::lock_guard lock(core_.mutex_);
  caller_ = nullptr;
  if (runner_ != nullptr) {
    core_.callers_.erase(std::exchange(runner_, nullptr));
  }
}

// --- What cells call -----------------------------------------------------------------------------

namespace {

class Replacement final : public CellMutator {
 public:
  explicit Replacement(boost::json::value value) : value_(std::move(value)) {}
  [[nodiscard]] CellValue next(const CellValue& /*current*/) override { return value_; }

 private:
  boost::json::value value_;
};

class Erasure final : public CellMutator {
 public:
  [[nodiscard]] CellValue next(const CellValue& current) override {
    existed = current.has_value();
    return std::nullopt;
  }
  bool existed = false;
};

Task<bool> erase_in_memory(std::shared_ptr<CellSlot> slot) {
  const auto erasure = std::make_shared<Erasure>();
  Task<void> mutation = mutate_in_memory(std::move(slot), erasure);
  co_await mutation;
  co_return erasure->existed;
}

Task<CellValue> read_from_memory(std::shared_ptr<CellSlot> slot) { co_return slot->value(); }

}  // namespace

Task<CellValue> CellMutator::next_later(const CellValue& current) { co_return next(current); }

const std::string& key_of(const CellSlot& slot) noexcept { return slot.key(); }

std::shared_ptr<CellSlot> slot_at(const std::shared_ptr<StateCore>& core, std::string key) {
  return core->slot(std::move(key));
}

std::shared_ptr<CellMutator> replace_with(boost::json::value value) {
  return std::make_shared<Replacement>(std::move(value));
}

Task<CellValue> read_cell(std::shared_ptr<CellSlot> slot) {
  const bool stored = slot->core().store() != nullptr;
  return stored ? read_from_store(std::move(slot)) : read_from_memory(std::move(slot));
}

Task<void> mutate_cell(std::shared_ptr<CellSlot> slot, std::shared_ptr<CellMutator> mutator) {
  const bool stored = slot->core().store() != nullptr;
  return stored ? mutate_in_store(std::move(slot), std::move(mutator))
                : mutate_in_memory(std::move(slot), std::move(mutator));
}

Task<bool> erase_cell(std::shared_ptr<CellSlot> slot) {
  const bool stored = slot->core().store() != nullptr;
  return stored ? erase_in_store(std::move(slot)) : erase_in_memory(std::move(slot));
}

void refuse_cell_type(std::string_view key, const std::string& why) {
  throw InvalidArgument("the cell " + printable(key) +
                        " holds a value that does not fit the type it is read as: " + why);
}

}  // namespace holdfast::detail
