// SPDX-License-Identifier: Apache-2.0
#include "raw_disk_bench.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "benchmarks/harness.hpp"
#include "connection.hpp"

namespace holdfast::bench {

namespace {

constexpr std::uint64_t kCount = 2'000;

double per_second(const Stopwatch& stopwatch) {
  return static_cast<double>(kCount) / (stopwatch.elapsed_ns() / 1e9);
}

}  // namespace

/// The file has its size beforehand, as a log has that is written over.
double syncs_per_second() {
  constexpr std::size_t kBlock = 4'096;
  constexpr std::uint64_t kBlocks = 16;
  const DiskFolder folder;
  const int file = ::open((folder.path() / "synced").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  require(file >= 0, "no file to sync");
  const std::string block(kBlock, 'v');
  const auto write_synced = [&](std::uint64_t number) {
    const auto offset = static_cast<::off_t>(number % kBlocks * kBlock);
    require(::pwrite(file, block.data(), kBlock, offset) == static_cast<::ssize_t>(kBlock) &&
                ::fdatasync(file) == 0,
            "the disk takes no more");
  };
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    write_synced(i);
  }
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    write_synced(i);
  }
  const double figure = per_second(stopwatch);
  ::close(file);
  return figure;
}

double raw_commits_per_second() {
  const DiskFolder folder;
  detail::Connection connection(folder.file().string(), "",
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  connection.run("PRAGMA journal_mode = WAL");
  connection.run("PRAGMA synchronous = FULL");
  connection.run("CREATE TABLE entries(key BLOB NOT NULL PRIMARY KEY, value BLOB) WITHOUT ROWID");
  detail::Statement put(connection, "INSERT OR REPLACE INTO entries VALUES(?1, ?2)");
  const std::string value(200, 'v');
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    put.bind(1, std::to_string(i % 16)).bind(2, value).run();
  }
  return per_second(stopwatch);
}

double raw_commit_us() { return 1e6 / raw_commits_per_second(); }

}  // namespace holdfast::bench
