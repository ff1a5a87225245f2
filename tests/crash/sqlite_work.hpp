// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "store_sqlite/test_database.hpp"
#include "tests/crash/faulty_disk.hpp"

namespace holdfast::testing {

inline constexpr const char* kPath = "store.db";
inline constexpr const char* kWal = "store.db-wal";

/// Seeds are multiplied with it: sanitizers are slow, and look for other mistakes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kEffort = 1;
#else
inline constexpr std::uint64_t kEffort = 10;
#endif

/// Two rows that only ever come together.
inline std::string transaction(int number) {
  const std::string key = std::to_string(number);
  return "BEGIN IMMEDIATE; INSERT INTO entries VALUES (" + key + ", hex(zeroblob(300)));" +
         "INSERT INTO entries VALUES (" + key + " + 1000, 'second'); COMMIT";
}

/// Which transactions are there, as "1,2,5 "; nothing if what is there is damaged or not whole.
inline std::optional<std::string> sound_transactions(TestDatabase& db) {
  const auto halves = db.ask(
      "SELECT count(*) FROM entries WHERE NOT EXISTS"
      "(SELECT 1 FROM entries AS half WHERE abs(half.key - entries.key) = 1000)");
  if (halves != "0 " || db.ask("PRAGMA integrity_check") != "ok ") {
    return std::nullopt;
  }
  return db.ask(
      "SELECT coalesce(group_concat(key), '') FROM"
      "(SELECT key FROM entries WHERE key < 1000 ORDER BY key)");
}

/// The files of a store with nothing in it, closed.
inline FaultyDisk::Image empty_store(FaultyDisk& disk, const std::string& vfs) {
  disk.reset(0);
  {
    TestDatabase db(kPath, vfs);
    EXPECT_EQ(db.make_store(), SQLITE_OK);
  }
  return disk.files();
}

}  // namespace holdfast::testing
