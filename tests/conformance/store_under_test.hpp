// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include <holdfast/clock.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/store.hpp>

#include "temp_dir.hpp"

// The kinds of store that the suite runs on. An object of a kind is one fresh store: every `open()`
// is one more connection to it, and what it has outlives them all. A new kind is a class like these
// and its name in `StoreKinds`.
namespace holdfast::conformance {

struct MemoryKind {
  static constexpr const char* kName = "memory";
  static constexpr bool kDurable = false;
  static constexpr bool kShared = false;  ///< Other processes open it by `url()`.
  static constexpr bool kBackup = false;  ///< `backup()` makes what `open_copy()` opens.
  static constexpr bool kSyncs = false;   ///< A commit waits for a real disk.

  [[nodiscard]] std::unique_ptr<Store> open() { return open_memory_store(disk_); }

 private:
  struct DiskWithClock {
    SystemClock clock;
    MemoryDisk disk{clock};
  };
  static std::shared_ptr<MemoryDisk> make_disk() {
    const auto own = std::make_shared<DiskWithClock>();
    return {own, &own->disk};
  }

  std::shared_ptr<MemoryDisk> disk_ = make_disk();
};

using StoreKinds = ::testing::Types<MemoryKind>;

struct StoreKindNames {
  template <typename Kind>
  static std::string GetName(int /*index*/) {
    return Kind::kName;
  }
};

}  // namespace holdfast::conformance
