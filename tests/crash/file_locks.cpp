// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/file_locks.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace holdfast::testing {

FileLocks::Holder::Holder(std::shared_ptr<FileLocks> locks) : locks_(std::move(locks)) {
  locks_->holders_.push_back(this);
}

FileLocks::Holder::~Holder() {
  unmap();
  std::erase(locks_->holders_, this);
}

bool FileLocks::Holder::other_at_least(int level) const {
  return std::any_of(
      locks_->holders_.begin(), locks_->holders_.end(),
      [this, level](const Holder* other) { return other != this && other->level_ >= level; });
}

int FileLocks::Holder::lock(int level) {
  if (level_ >= level) {
    return SQLITE_OK;
  }
  const int in_the_way = level == SQLITE_LOCK_SHARED ? SQLITE_LOCK_PENDING : SQLITE_LOCK_RESERVED;
  if (other_at_least(in_the_way)) {
    return SQLITE_BUSY;
  }
  if (level == SQLITE_LOCK_EXCLUSIVE && other_at_least(SQLITE_LOCK_SHARED)) {
    level_ = SQLITE_LOCK_PENDING;  // Keeps new readers out until those that are in have left.
    return SQLITE_BUSY;
  }
  level_ = level;
  return SQLITE_OK;
}

void FileLocks::Holder::unlock(int level) { level_ = std::min(level_, level); }

bool FileLocks::Holder::anyone_reserved() const {
  return level_ >= SQLITE_LOCK_RESERVED || other_at_least(SQLITE_LOCK_RESERVED);
}

int FileLocks::Holder::map(int region, int bytes, bool extend, volatile void** memory) {
  mapped_ = true;
  auto& regions = locks_->regions_;
  const auto index = static_cast<std::size_t>(region);
  *memory = nullptr;
  if (index >= regions.size() && !extend) {
    return SQLITE_OK;
  }
  while (index >= regions.size()) {
    const auto words = static_cast<std::size_t>(bytes) / sizeof(std::uint64_t);
    regions.push_back(std::make_unique<std::uint64_t[]>(words));
  }
  *memory = regions[index].get();
  return SQLITE_OK;
}

int FileLocks::Holder::lock_shm(int offset, int count, int flags) {
  const std::uint32_t bits = ((1U << static_cast<unsigned>(count)) - 1U)
                             << static_cast<unsigned>(offset);
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    shm_shared_ &= ~bits;
    shm_exclusive_ &= ~bits;
    return SQLITE_OK;
  }
  const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
  for (const Holder* other : locks_->holders_) {
    const std::uint32_t held = other->shm_exclusive_ | (exclusive ? other->shm_shared_ : 0U);
    if (other != this && (held & bits) != 0) {
      return SQLITE_BUSY;
    }
  }
  (exclusive ? shm_exclusive_ : shm_shared_) |= bits;
  return SQLITE_OK;
}

void FileLocks::Holder::unmap() {
  mapped_ = false;
  shm_shared_ = 0;
  shm_exclusive_ = 0;
  const auto& holders = locks_->holders_;
  if (std::none_of(holders.begin(), holders.end(),
                   [](const Holder* one) { return one->mapped_; })) {
    locks_->regions_.clear();
  }
}

}  // namespace holdfast::testing
