// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <holdfast/clock.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/store.hpp>

#include "base/temp_folder.hpp"

#ifdef HOLDFAST_TEST_SQLITE
#include <holdfast/sqlite_store.hpp>
#endif
#ifdef HOLDFAST_TEST_FILE
#include <holdfast/file_store.hpp>
#endif

// The kinds of store that the suite runs on. An object of a kind is one fresh store: every `open()`
// is one more connection to it, and what it has outlives them all. A new kind is a class like these
// and its name in `StoreKinds`.
//
// kDurable, kShared: what its capabilities have to say. Other processes open it by `url()`.
// kBackup: `backup()` makes what `open_at()` opens; otherwise it is refused.
// kSyncs: a commit waits for a disk, or for what stands for one.
namespace holdfast::conformance {

/// A memory disk on the real clock.
class InMemory {
 public:
  static constexpr bool kDurable = false;
  static constexpr bool kShared = false;
  static constexpr bool kBackup = false;

  [[nodiscard]] std::unique_ptr<Store> open() const { return open_memory_store(disk_); }

 protected:
  explicit InMemory(const MemoryFaults& faults) : disk_(make_disk(faults)) {}

 private:
  struct DiskWithClock {
    explicit DiskWithClock(const MemoryFaults& faults) : disk(clock, faults) {}
    SystemClock clock;
    MemoryDisk disk;
  };
  static std::shared_ptr<MemoryDisk> make_disk(const MemoryFaults& faults) {
    const auto own = std::make_shared<DiskWithClock>(faults);
    return {own, &own->disk};
  }

  std::shared_ptr<MemoryDisk> disk_;
};

class MemoryKind : public InMemory {
 public:
  static constexpr const char* kName = "memory";
  static constexpr bool kSyncs = false;
  MemoryKind() : InMemory({}) {}
};

/// Becomes durable later than it is applied, as on a disk.
class DelayedMemoryKind : public InMemory {
 public:
  static constexpr const char* kName = "memory_with_delays";
  static constexpr bool kSyncs = true;
  DelayedMemoryKind() : InMemory({.sync_delay_max = std::chrono::milliseconds(1)}) {}
};

/// What the kinds in a folder have in common.
class OnDisk {
 public:
  static constexpr bool kDurable = true;
  static constexpr bool kShared = true;
  static constexpr bool kBackup = true;
  static constexpr bool kSyncs = true;

  /// Where there is nothing yet.
  [[nodiscard]] std::filesystem::path free_path() const { return dir_.path() / "copy"; }

 protected:
  [[nodiscard]] std::filesystem::path path() const { return dir_.path() / "store"; }

 private:
  testing::TempFolder dir_;
};

#ifdef HOLDFAST_TEST_SQLITE
class SqliteKind : public OnDisk {
 public:
  static constexpr const char* kName = "sqlite";

  static std::unique_ptr<Store> open_at(const std::filesystem::path& path) {
    // A busy machine is no error of the store.
    return open_sqlite_store(path, {.busy_timeout = std::chrono::seconds(40)});
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_at(path()); }
  [[nodiscard]] std::string url() const { return "sqlite:" + path().string(); }
};
#endif

#ifdef HOLDFAST_TEST_FILE
class FileKind : public OnDisk {
 public:
  static constexpr const char* kName = "file";

  static std::unique_ptr<Store> open_at(const std::filesystem::path& path) {
    return open_file_store(path, {.busy_timeout = std::chrono::seconds(40)});
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_at(path()); }
  [[nodiscard]] std::string url() const { return "file:" + path().string(); }
};
#endif

// clang-format off
using StoreKinds = ::testing::Types<MemoryKind, DelayedMemoryKind
#ifdef HOLDFAST_TEST_SQLITE
    , SqliteKind
#endif
#ifdef HOLDFAST_TEST_FILE
    , FileKind
#endif
    >;
// clang-format on

template <typename... Kinds>
struct Shared {
  template <typename... Found>
  static ::testing::Types<Found...> list(std::tuple<Found*...>);
  using Type = decltype(list(std::tuple_cat(
      std::declval<std::conditional_t<Kinds::kShared, std::tuple<Kinds*>, std::tuple<>>>()...)));
};
template <typename... Kinds>
struct Shared<::testing::Types<Kinds...>> : Shared<Kinds...> {};

/// Those that other processes can open.
using SharedStoreKinds = Shared<StoreKinds>::Type;

struct StoreKindNames {
  template <typename Kind>
  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it so.
  static std::string GetName(int /*index*/) {
    return Kind::kName;
  }
};

}  // namespace holdfast::conformance
