// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/sqlite_store.hpp>

#include "store_sqlite/sqlite_store_parts.hpp"
#include "tests/crash/alone.hpp"
#include "tests/crash/faulty_disk.hpp"
#include "tests/crash/ledger.hpp"
#include "tests/crash/stage.hpp"

namespace holdfast::testing {

/// A computer with one store on a disk that fails by plan, and what is known of the store.
class Machine {
 public:
  static constexpr const char* kPath = "store.db";

  Machine();

  /// The store, the mark and the ledger of one moment.
  struct Moment {
    FaultyDisk::Image files;
    KeptMark mark;
    Ledger ledger;
  };
  [[nodiscard]] Moment now() const { return {disk.files(), mark, ledger}; }
  void begin_at(const Moment& moment, std::uint64_t seed);

  /// A new life of the process.
  [[nodiscard]] std::unique_ptr<Store> open();
  void cut_power(Dice& dice);
  [[nodiscard]] const std::string& vfs() const noexcept { return vfs_; }

  /// Reads everything, and says what is wrong with it; notes how much was lost.
  struct Findings {
    std::size_t lost = 0;
    std::vector<std::string> faults;
  };
  [[nodiscard]] Findings look(Store& store);

  FaultyDisk disk{1};
  Stage stage;
  KeptMark mark;
  Ledger ledger;
  Sync sync = Sync::kStrict;
  int checkpoint_pages = detail::kCheckpointPages;

 private:
  const std::string vfs_;
};

/// A store with a few entries, closed; and one that was killed, whose log has some of them.
[[nodiscard]] Machine::Moment closed_store(Machine& machine);
[[nodiscard]] Machine::Moment killed_store(Machine& machine);

}  // namespace holdfast::testing
