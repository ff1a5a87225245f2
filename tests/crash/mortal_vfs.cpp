// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/mortal_vfs.hpp"

#include <atomic>
#include <csignal>

#include "tests/crash/vfs_layer.hpp"

namespace holdfast::testing {

struct MortalVfs::State : VfsLayer {
  explicit State(std::uint64_t point)
      : VfsLayer("mortal", sqlite3_vfs_find(nullptr)), points(point) {}

  void count_down() {
    if (points-- == 0) {
      std::raise(SIGKILL);
    }
  }

  std::atomic<std::uint64_t> points;
};

namespace {

using State = MortalVfs::State;

template <auto kMethod>
struct Risk;
template <typename Result, typename... Arguments,
          Result (*sqlite3_io_methods::*kMethod)(sqlite3_file*, Arguments...)>
struct Risk<kMethod> {
  static Result call(sqlite3_file* file, Arguments... arguments) {
    Below<State>::owner(file).count_down();
    return Below<State>::Forward<kMethod>::call(file, arguments...);
  }
};

constexpr sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods = Below<State>::methods();
  methods.xWrite = &Risk<&sqlite3_io_methods::xWrite>::call;
  methods.xTruncate = &Risk<&sqlite3_io_methods::xTruncate>::call;
  methods.xSync = &Risk<&sqlite3_io_methods::xSync>::call;
  methods.xShmLock = &Risk<&sqlite3_io_methods::xShmLock>::call;
  return methods;
}();

int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  auto& state = *static_cast<State*>(vfs);
  if ((flags & SQLITE_OPEN_CREATE) != 0) {
    state.count_down();
  }
  return VfsLayer::open(state, kMethods, path, file, flags, flags_out);
}

int remove(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  auto& state = *static_cast<State*>(vfs);
  state.count_down();
  return state.base->xDelete(state.base, path, sync_folder);
}

}  // namespace

MortalVfs::MortalVfs(std::uint64_t dies_before) : state_(std::make_unique<State>(dies_before)) {
  state_->xOpen = open;
  state_->xDelete = remove;
  state_->enter();
}

MortalVfs::~MortalVfs() = default;

void MortalVfs::die_before(std::uint64_t point) { state_->points = point; }

const std::string& MortalVfs::name() const { return state_->name; }

}  // namespace holdfast::testing
