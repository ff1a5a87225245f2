// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>

#include <holdfast/watch.hpp>

#include "cell_slot.hpp"
#include "envelope.hpp"

namespace holdfast::detail {

namespace {

class MemoryNews final : public CellNews {
 public:
  explicit MemoryNews(std::shared_ptr<CellSlot> slot) : slot_(std::move(slot)) {
    slot_->add(watcher_);
  }

  [[nodiscard]] Task<CellValue> next() override {
    while (seen_ && !slot_->written_since(*seen_, *watcher_)) {
      // Held until the next write: only this task waits for it.
      const Hold opened = co_await watcher_->gate.lock();
    }
    auto [value, writes] = slot_->state();
    seen_ = writes;
    co_return std::move(value);
  }

 private:
  std::shared_ptr<CellSlot> slot_;
  std::shared_ptr<MemoryWatcher> watcher_ = std::make_shared<MemoryWatcher>();
  std::optional<std::uint64_t> seen_;
};

class StoreNews final : public CellNews {
 public:
  explicit StoreNews(std::shared_ptr<CellSlot> slot)
      : slot_(std::move(slot)), watch_(slot_->core().store()->watch(slot_->key())) {}

  [[nodiscard]] Task<CellValue> next() override {
    for (;;) {
      const std::optional<Entry> entry = co_await slot_->core().store()->get(slot_->key());
      const Version version = entry ? entry->version : 0;  // No entry has version 0.
      if (seen_ != version) {
        CellValue value;
        if (entry) {
          value = Envelope(*entry).value();
        }
        seen_ = version;
        co_return value;
      }
      // Also for cells whose keys begin with this one.
      co_await watch_.changed();
    }
  }

 private:
  std::shared_ptr<CellSlot> slot_;
  Watch watch_;
  std::optional<Version> seen_;
};

}  // namespace

std::unique_ptr<CellNews> watch_cell(std::shared_ptr<CellSlot> slot) {
  if (slot->core().store() != nullptr) {
    return std::make_unique<StoreNews>(std::move(slot));
  }
  return std::make_unique<MemoryNews>(std::move(slot));
}

}  // namespace holdfast::detail
