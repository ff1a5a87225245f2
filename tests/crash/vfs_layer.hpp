// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <string>
#include <utility>

#include <holdfast/detail/check.hpp>

namespace holdfast::testing {

/// A file of a VFS that lies on top of another one. The other one's file follows in memory.
template <class Owner>
struct LayerFile : sqlite3_file {
  Owner* owner;
};

/// What goes to the VFS below as it is.
template <class Owner>
class Below {
 public:
  static sqlite3_file* file(sqlite3_file* file) { return static_cast<LayerFile<Owner>*>(file) + 1; }
  static Owner& owner(sqlite3_file* file) { return *static_cast<LayerFile<Owner>*>(file)->owner; }

  template <auto kMethod>
  struct Forward;
  template <typename Result, typename... Arguments,
            Result (*sqlite3_io_methods::*kMethod)(sqlite3_file*, Arguments...)>
  struct Forward<kMethod> {
    static Result call(sqlite3_file* layer, Arguments... arguments) {
      sqlite3_file* const below = file(layer);
      return (below->pMethods->*kMethod)(below, arguments...);
    }
  };

  /// All of version 2.
  static constexpr sqlite3_io_methods methods() {
    sqlite3_io_methods all{};
    all.iVersion = 2;
    all.xClose = &Forward<&sqlite3_io_methods::xClose>::call;
    all.xRead = &Forward<&sqlite3_io_methods::xRead>::call;
    all.xWrite = &Forward<&sqlite3_io_methods::xWrite>::call;
    all.xTruncate = &Forward<&sqlite3_io_methods::xTruncate>::call;
    all.xSync = &Forward<&sqlite3_io_methods::xSync>::call;
    all.xFileSize = &Forward<&sqlite3_io_methods::xFileSize>::call;
    all.xLock = &Forward<&sqlite3_io_methods::xLock>::call;
    all.xUnlock = &Forward<&sqlite3_io_methods::xUnlock>::call;
    all.xCheckReservedLock = &Forward<&sqlite3_io_methods::xCheckReservedLock>::call;
    all.xFileControl = &Forward<&sqlite3_io_methods::xFileControl>::call;
    all.xSectorSize = &Forward<&sqlite3_io_methods::xSectorSize>::call;
    all.xDeviceCharacteristics = &Forward<&sqlite3_io_methods::xDeviceCharacteristics>::call;
    all.xShmMap = &Forward<&sqlite3_io_methods::xShmMap>::call;
    all.xShmLock = &Forward<&sqlite3_io_methods::xShmLock>::call;
    all.xShmBarrier = &Forward<&sqlite3_io_methods::xShmBarrier>::call;
    all.xShmUnmap = &Forward<&sqlite3_io_methods::xShmUnmap>::call;
    return all;
  }
};

/// A VFS on top of another one, registered for as long as it lives. A copy of a VFS is a VFS: only
/// what has to differ is replaced.
struct VfsLayer : sqlite3_vfs {
  VfsLayer(std::string named, sqlite3_vfs* under)
      : sqlite3_vfs(*under), name(std::move(named)), base(under) {
    pNext = nullptr;
    zName = name.c_str();
    szOsFile = static_cast<int>(sizeof(LayerFile<VfsLayer>)) + base->szOsFile;
  }
  VfsLayer(const VfsLayer&) = delete;
  VfsLayer& operator=(const VfsLayer&) = delete;
  ~VfsLayer() { sqlite3_vfs_unregister(this); }

  void enter() {
    HOLDFAST_CHECK(sqlite3_vfs_register(this, 0) == SQLITE_OK, "SQLite takes the VFS");
  }

  template <class Owner>
  static int open(Owner& owner, const sqlite3_io_methods& methods, const char* path,
                  sqlite3_file* file, int flags, int* flags_out) {
    sqlite3_vfs* const base = owner.base;
    sqlite3_file* const below = Below<Owner>::file(file);
    below->pMethods = nullptr;
    static_cast<LayerFile<Owner>*>(file)->owner = &owner;
    const int result = base->xOpen(base, path, below, flags, flags_out);
    // SQLite closes whatever has methods, even after a failed open.
    file->pMethods = below->pMethods == nullptr ? nullptr : &methods;
    return result;
  }

  std::string name;
  sqlite3_vfs* base;
};

}  // namespace holdfast::testing
