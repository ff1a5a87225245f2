// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/mortal_vfs.hpp"

#include <sqlite3.h>

#include <atomic>
#include <csignal>

#include <holdfast/detail/check.hpp>

namespace holdfast::testing {

struct MortalVfs::State : sqlite3_vfs {
  // A copy of a VFS is a VFS: only what has to differ is replaced.
  explicit State(std::uint64_t point)
      : sqlite3_vfs(*sqlite3_vfs_find(nullptr)), dies_before(point) {}

  void count_down() {
    if (points++ == dies_before) {
      std::raise(SIGKILL);
    }
  }

  sqlite3_vfs* base = sqlite3_vfs_find(nullptr);
  std::string name = "mortal";
  std::uint64_t dies_before;
  std::atomic<std::uint64_t> points = 0;
};

namespace {

/// The default VFS's file follows in memory.
struct File : sqlite3_file {
  MortalVfs::State* owner;
};

sqlite3_file* real(sqlite3_file* file) { return static_cast<File*>(file) + 1; }

template <auto kMethod>
struct Forward;
template <typename Result, typename... Arguments,
          Result (*sqlite3_io_methods::*kMethod)(sqlite3_file*, Arguments...)>
struct Forward<kMethod> {
  static Result call(sqlite3_file* file, Arguments... arguments) {
    return (real(file)->pMethods->*kMethod)(real(file), arguments...);
  }
  static Result risk(sqlite3_file* file, Arguments... arguments) {
    static_cast<File*>(file)->owner->count_down();
    return call(file, arguments...);
  }
};

constexpr sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 2;
  methods.xClose = &Forward<&sqlite3_io_methods::xClose>::call;
  methods.xRead = &Forward<&sqlite3_io_methods::xRead>::call;
  methods.xWrite = &Forward<&sqlite3_io_methods::xWrite>::risk;
  methods.xTruncate = &Forward<&sqlite3_io_methods::xTruncate>::risk;
  methods.xSync = &Forward<&sqlite3_io_methods::xSync>::risk;
  methods.xFileSize = &Forward<&sqlite3_io_methods::xFileSize>::call;
  methods.xLock = &Forward<&sqlite3_io_methods::xLock>::call;
  methods.xUnlock = &Forward<&sqlite3_io_methods::xUnlock>::call;
  methods.xCheckReservedLock = &Forward<&sqlite3_io_methods::xCheckReservedLock>::call;
  methods.xFileControl = &Forward<&sqlite3_io_methods::xFileControl>::call;
  methods.xSectorSize = &Forward<&sqlite3_io_methods::xSectorSize>::call;
  methods.xDeviceCharacteristics = &Forward<&sqlite3_io_methods::xDeviceCharacteristics>::call;
  methods.xShmMap = &Forward<&sqlite3_io_methods::xShmMap>::call;
  methods.xShmLock = &Forward<&sqlite3_io_methods::xShmLock>::risk;
  methods.xShmBarrier = &Forward<&sqlite3_io_methods::xShmBarrier>::call;
  methods.xShmUnmap = &Forward<&sqlite3_io_methods::xShmUnmap>::call;
  return methods;
}();

int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* flags_out) {
  auto* const self = static_cast<MortalVfs::State*>(vfs);
  if ((flags & SQLITE_OPEN_CREATE) != 0) {
    self->count_down();
  }
  static_cast<File*>(file)->owner = self;
  real(file)->pMethods = nullptr;
  const int result = self->base->xOpen(self->base, name, real(file), flags, flags_out);
  // SQLite closes whatever has methods, even after a failed open.
  file->pMethods = real(file)->pMethods == nullptr ? nullptr : &kMethods;
  return result;
}

int remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  auto* const self = static_cast<MortalVfs::State*>(vfs);
  self->count_down();
  return self->base->xDelete(self->base, name, sync_folder);
}

}  // namespace

MortalVfs::MortalVfs(std::uint64_t dies_before) : state_(std::make_unique<State>(dies_before)) {
  state_->pNext = nullptr;
  state_->zName = state_->name.c_str();
  state_->szOsFile = static_cast<int>(sizeof(File)) + state_->base->szOsFile;
  state_->xOpen = open;
  state_->xDelete = remove;
  HOLDFAST_CHECK(sqlite3_vfs_register(state_.get(), 0) == SQLITE_OK, "SQLite takes the VFS");
}

MortalVfs::~MortalVfs() { sqlite3_vfs_unregister(state_.get()); }

const std::string& MortalVfs::name() const { return state_->name; }

}  // namespace holdfast::testing
