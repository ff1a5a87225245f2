// SPDX-License-Identifier: Apache-2.0
#include "log_file.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <holdfast/store_error.hpp>

namespace holdfast::detail {

namespace {

/// The log, opened beside SQLite's own connections.
class LogFile {
 public:
  LogFile(sqlite3_vfs& vfs, std::string path) : path_(std::move(path)) {
    memory_.resize(static_cast<std::size_t>(vfs.szOsFile) / sizeof(std::max_align_t) + 1);
    check(vfs.xOpen(&vfs, path_.c_str(), &file(), SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL, nullptr),
          "opening it");
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  ~LogFile() {
    if (file().pMethods != nullptr) {
      file().pMethods->xClose(&file());
    }
  }

  void write_again() {
    sqlite3_int64 size = 0;
    check(file().pMethods->xFileSize(&file(), &size), "reading its size");
    std::vector<char> bytes(kChunkBytes);
    for (sqlite3_int64 at = 0; at < size; at += kChunkBytes) {
      const int count = static_cast<int>(std::min<sqlite3_int64>(kChunkBytes, size - at));
      check(file().pMethods->xRead(&file(), bytes.data(), count, at), "reading it");
      check(file().pMethods->xWrite(&file(), bytes.data(), count, at), "writing it again");
    }
    check(file().pMethods->xSync(&file(), SQLITE_SYNC_FULL), "syncing it");
  }

 private:
  static constexpr int kChunkBytes = 1 << 16;  // SQLite does not write 128 KiB or more at once.

  sqlite3_file& file() noexcept { return *reinterpret_cast<sqlite3_file*>(memory_.data()); }

  void check(int code, const char* doing) const {
    if (code != SQLITE_OK) {
      throw StoreFailed(path_ + ": " + doing + ": " + sqlite3_errstr(code) + " (SQLite error " +
                        std::to_string(code) + ")");
    }
  }

  std::string path_;
  std::vector<std::max_align_t> memory_;
};

}  // namespace

void sync_log(const DatabaseFile& file) {
  sqlite3_vfs& vfs = *sqlite3_vfs_find(file.vfs.c_str());
  const std::string path = file.path + "-wal";
  int exists = 0;
  if (vfs.xAccess(&vfs, path.c_str(), SQLITE_ACCESS_EXISTS, &exists) == SQLITE_OK && exists != 0) {
    LogFile(vfs, path).write_again();
  }
}

}  // namespace holdfast::detail
