// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "tests/crash/vfs_layer.hpp"

namespace holdfast::testing {

/// A VFS under which a checkpoint can be stopped after it has copied the header of the WAL index,
/// and before it has compared the copy with anything: there SQLite calls xUnfetch on the database
/// file, if the header has changed since the connection last looked.
class PausingVfs : private VfsLayer {
 public:
  /// Over the VFS of that name, or the default.
  PausingVfs(const char* under, std::function<void()> pause)
      : VfsLayer("pausing", sqlite3_vfs_find(under)), pause_(std::move(pause)) {
    xOpen = &open;
    enter();
  }

  [[nodiscard]] const std::string& vfs_name() const { return name; }
  /// The next checkpoint that finds a new header pauses, and only that one.
  void arm() { armed_ = true; }
  void disarm() { armed_ = false; }

 private:
  friend struct VfsLayer;

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags,
                  int* flags_out) {
    auto& self = *static_cast<PausingVfs*>(vfs);
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
      return self.base->xOpen(self.base, path, file, flags, flags_out);
    }
    return VfsLayer::open(self, kMethods, path, file, flags, flags_out);
  }

  /// No part of the file is mapped, so SQLite reads it.
  static int fetch(sqlite3_file* /*file*/, sqlite3_int64 /*offset*/, int /*bytes*/, void** page) {
    *page = nullptr;
    return SQLITE_OK;
  }
  static int unfetch(sqlite3_file* file, sqlite3_int64 /*offset*/, void* page) {
    PausingVfs& self = Below<PausingVfs>::owner(file);
    // Not one page is given back, but all: the header was new.
    if (page == nullptr && self.armed_.exchange(false)) {
      self.pause_();
    }
    return SQLITE_OK;
  }

  static constexpr sqlite3_io_methods methods() {
    sqlite3_io_methods all = Below<PausingVfs>::methods();
    all.iVersion = 3;
    all.xFetch = &fetch;
    all.xUnfetch = &unfetch;
    return all;
  }
  static const sqlite3_io_methods kMethods;

  std::function<void()> pause_;
  std::atomic<bool> armed_ = false;
};

inline constexpr sqlite3_io_methods PausingVfs::kMethods = PausingVfs::methods();

}  // namespace holdfast::testing
