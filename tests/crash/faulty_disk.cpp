// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/faulty_disk.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/detail/check.hpp>

#include "tests/crash/dice.hpp"
#include "tests/crash/disk_file.hpp"
#include "tests/crash/file_locks.hpp"

namespace holdfast::testing {
namespace {

constexpr int kPathBytesMax = 512;

enum class Operation : std::uint8_t {
  kCreate,
  kWrite,
  kGrowingWrite,
  kTruncate,
  kSync,
  kDelete,
  kRead
};

bool can_happen_to(Fault fault, Operation operation) {
  switch (fault) {
    case Fault::kWriteError:
      return operation != Operation::kSync && operation != Operation::kRead;
    case Fault::kFull:
    case Fault::kFullUntilFreed:
      return operation == Operation::kGrowingWrite || operation == Operation::kCreate;
    case Fault::kSyncError:
      return operation == Operation::kSync;
    case Fault::kReadError:
      return operation == Operation::kRead;
  }
  return false;
}

struct Node {
  DiskFile file;
  std::shared_ptr<FileLocks> locks = std::make_shared<FileLocks>();
};
using Folder = std::map<std::string, std::shared_ptr<Node>>;

Node* find(const Folder& folder, const std::string& name) {
  const auto found = folder.find(name);
  return found == folder.end() ? nullptr : found->second.get();
}

}  // namespace

struct FaultyDisk::State : sqlite3_vfs {
  /// An open file. SQLite owns the memory; `close` ends it.
  struct Handle : sqlite3_file {
    Handle(State& on, std::string called, std::shared_ptr<Node> opened)
        : sqlite3_file{},
          disk(on),
          name(std::move(called)),
          node(std::move(opened)),
          locks(node->locks),
          generation(on.generation) {}

    [[nodiscard]] bool temporary() const { return name.empty(); }
    [[nodiscard]] bool usable() const { return generation == disk.generation && !disk.dead; }

    State& disk;
    std::string name;
    std::shared_ptr<Node> node;
    FileLocks::Holder locks;
    std::uint64_t generation;
    int persist_wal = 0;
    bool delete_on_close = false;
  };

  struct Plan {
    std::uint64_t from;
    Fault fault;
  };
  /// What becomes of an operation.
  enum class Fate : std::uint8_t { kDone, kFailed, kFull, kDead };

  explicit State(std::uint64_t seed);

  Fate next(Operation operation);
  std::size_t room() const;
  void forget_plans();
  void renew_locks();

  int open(const char* path, sqlite3_file* memory, int flags);
  int create(const std::string& path, std::shared_ptr<Node>& node);
  int remove(const std::string& path, bool durably);
  int read(Handle& handle, void* out, std::size_t bytes, std::size_t at);
  int write(Handle& handle, std::string_view bytes, std::size_t at);
  int truncate(Handle& handle, std::size_t size);
  int sync(Handle& handle);

  std::atomic<std::uint64_t> barriers{0};
  mutable std::mutex mutex;  // Guards all below, the nodes and the locks.
  std::string name;
  Dice dice;
  Folder seen;
  Folder durable;
  std::uint64_t generation = 0;
  std::uint64_t points = 0;
  std::uint64_t faults = 0;
  std::uint64_t clock_ms = 0;
  bool reads_count = false;
  bool dead = false;
  bool full = false;
  bool lies = false;
  int last_error = 0;  // As errno would have it; SQLite asks for it after a failed open.
  std::optional<std::uint64_t> dies_at;
  std::vector<Plan> plans;
  std::optional<std::size_t> capacity;
};

FaultyDisk::State::Fate FaultyDisk::State::next(Operation operation) {
  const bool is_read = operation == Operation::kRead;
  const std::uint64_t point = points;
  if (!is_read || reads_count) {
    ++points;
    if (dies_at && point >= *dies_at) {
      dead = true;
      return Fate::kDead;
    }
  }
  if (full && can_happen_to(Fault::kFull, operation)) {
    ++faults;
    return Fate::kFull;
  }
  const auto plan = std::find_if(plans.begin(), plans.end(), [&](const Plan& one) {
    return point >= one.from && can_happen_to(one.fault, operation);
  });
  if (plan == plans.end()) {
    return Fate::kDone;
  }
  ++faults;
  const Fault fault = plan->fault;
  plans.erase(plan);
  full = full || fault == Fault::kFullUntilFreed;
  return fault == Fault::kFull || fault == Fault::kFullUntilFreed ? Fate::kFull : Fate::kFailed;
}

/// How many bytes files may still grow.
std::size_t FaultyDisk::State::room() const {
  if (!capacity) {
    return SIZE_MAX;
  }
  std::size_t used = 0;
  for (const auto& [path, node] : seen) {
    used += node->file.seen().size();
  }
  return *capacity - std::min(used, *capacity);
}

void FaultyDisk::State::forget_plans() {
  dead = false;
  full = false;
  dies_at.reset();
  plans.clear();
}

/// Locks, and the memory beside them, are the processes' and die with them.
void FaultyDisk::State::renew_locks() {
  ++generation;
  for (const Folder* folder : {&seen, &durable}) {
    for (const auto& [path, node] : *folder) {
      node->locks = std::make_shared<FileLocks>();
    }
  }
}

int FaultyDisk::State::create(const std::string& path, std::shared_ptr<Node>& node) {
  const Fate fate = next(Operation::kCreate);
  if (fate == Fate::kFailed || fate == Fate::kFull) {
    last_error = fate == Fate::kFull ? ENOSPC : EIO;
    return SQLITE_CANTOPEN;
  }
  node = std::make_shared<Node>();
  seen[path] = node;
  return fate == Fate::kDead ? SQLITE_IOERR : SQLITE_OK;
}

int FaultyDisk::State::open(const char* path, sqlite3_file* memory, int flags) {
  if (dead) {
    return SQLITE_IOERR;
  }
  if (path == nullptr) {
    new (memory) Handle(*this, {}, std::make_shared<Node>());
    return SQLITE_OK;
  }
  const auto found = seen.find(path);
  std::shared_ptr<Node> node = found == seen.end() ? nullptr : found->second;
  if (node == nullptr ? (flags & SQLITE_OPEN_CREATE) == 0 : (flags & SQLITE_OPEN_EXCLUSIVE) != 0) {
    return SQLITE_CANTOPEN;
  }
  const int result = node == nullptr ? create(path, node) : SQLITE_OK;
  if (result == SQLITE_OK) {
    auto* handle = new (memory) Handle(*this, path, std::move(node));
    handle->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  }
  return result;
}

int FaultyDisk::State::remove(const std::string& path, bool durably) {
  if (dead) {
    return SQLITE_IOERR;
  }
  if (find(seen, path) == nullptr) {
    return SQLITE_IOERR_DELETE_NOENT;
  }
  const Fate fate = next(Operation::kDelete);
  if (fate == Fate::kFailed) {
    return SQLITE_IOERR_DELETE;
  }
  seen.erase(path);
  if (fate == Fate::kDead) {
    return SQLITE_IOERR;
  }
  if (durably) {
    durable.erase(path);
  }
  return SQLITE_OK;
}

int FaultyDisk::State::read(Handle& handle, void* out, std::size_t bytes, std::size_t at) {
  const Fate fate = handle.temporary() ? Fate::kDone : next(Operation::kRead);
  if (fate != Fate::kDone) {
    return fate == Fate::kDead ? SQLITE_IOERR : SQLITE_IOERR_READ;
  }
  const std::string& content = handle.node->file.seen();
  const std::size_t there = at < content.size() ? std::min(bytes, content.size() - at) : 0;
  auto* to = static_cast<char*>(out);
  std::copy_n(content.data() + (there == 0 ? 0 : at), there, to);
  std::fill_n(to + there, bytes - there, '\0');
  return there == bytes ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int FaultyDisk::State::write(Handle& handle, std::string_view bytes, std::size_t at) {
  DiskFile& file = handle.node->file;
  if (handle.temporary()) {
    file.write(at, bytes);
    file.sync();  // Only so that no list of changes grows.
    return SQLITE_OK;
  }
  const std::size_t size = file.seen().size();
  const std::size_t growth = at + bytes.size() > size ? at + bytes.size() - size : 0;
  Fate fate = next(growth > 0 ? Operation::kGrowingWrite : Operation::kWrite);
  if (fate == Fate::kDone && growth > 0 && growth > room()) {
    ++faults;
    fate = Fate::kFull;
  }
  if (fate == Fate::kDone || fate == Fate::kDead) {
    file.write(at, bytes);
    return fate == Fate::kDone ? SQLITE_OK : SQLITE_IOERR;
  }
  // A write that fails may have got somewhere.
  const std::size_t limit = fate == Fate::kFull ? bytes.size() - growth : bytes.size();
  const std::size_t done = dice.below(limit / kSectorBytes + 1) * kSectorBytes;
  if (done > 0) {
    file.write(at, bytes.substr(0, done));
  }
  return fate == Fate::kFull ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

int FaultyDisk::State::truncate(Handle& handle, std::size_t size) {
  const Fate fate = handle.temporary() ? Fate::kDone : next(Operation::kTruncate);
  if (fate == Fate::kFailed) {
    return SQLITE_IOERR_TRUNCATE;
  }
  handle.node->file.truncate(size);
  return fate == Fate::kDead ? SQLITE_IOERR : SQLITE_OK;
}

int FaultyDisk::State::sync(Handle& handle) {
  if (handle.temporary()) {
    return SQLITE_OK;
  }
  const Fate fate = next(Operation::kSync);
  if (fate == Fate::kFailed) {
    handle.node->file.fail_sync(dice);
    return SQLITE_IOERR_FSYNC;
  }
  if (fate == Fate::kDead) {
    return SQLITE_IOERR;
  }
  if (lies) {
    return SQLITE_OK;
  }
  handle.node->file.sync();
  if (find(seen, handle.name) == handle.node.get()) {
    durable[handle.name] = handle.node;
  }
  return SQLITE_OK;
}

namespace {

// What SQLite calls. Each takes the disk's mutex; a handle that is dead fails.

using State = FaultyDisk::State;
using Handle = State::Handle;

Handle& handle_of(sqlite3_file* file) { return *static_cast<Handle*>(file); }

template <class Action>
int with(sqlite3_file* file, Action action) {
  Handle& handle = handle_of(file);
  const std::scoped_lock lock(handle.disk.mutex);
  return handle.usable() ? action(handle) : SQLITE_IOERR;
}

int file_close(sqlite3_file* file) {
  Handle& handle = handle_of(file);
  State& disk = handle.disk;
  const std::scoped_lock lock(disk.mutex);
  if (handle.delete_on_close && handle.usable()) {
    disk.seen.erase(handle.name);
  }
  handle.~Handle();
  return SQLITE_OK;
}
int file_read(sqlite3_file* file, void* out, int bytes, sqlite3_int64 at) {
  return with(file, [&](Handle& handle) {
    return handle.disk.read(handle, out, static_cast<std::size_t>(bytes),
                            static_cast<std::size_t>(at));
  });
}
int file_write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 at) {
  return with(file, [&](Handle& handle) {
    const std::string_view view(static_cast<const char*>(data), static_cast<std::size_t>(bytes));
    return handle.disk.write(handle, view, static_cast<std::size_t>(at));
  });
}
int file_truncate(sqlite3_file* file, sqlite3_int64 size) {
  return with(file, [&](Handle& handle) {
    return handle.disk.truncate(handle, static_cast<std::size_t>(size));
  });
}
int file_sync(sqlite3_file* file, int /*flags*/) {
  return with(file, [](Handle& handle) { return handle.disk.sync(handle); });
}
int file_size(sqlite3_file* file, sqlite3_int64* size) {
  return with(file, [&](Handle& handle) {
    *size = static_cast<sqlite3_int64>(handle.node->file.seen().size());
    return SQLITE_OK;
  });
}
int file_lock(sqlite3_file* file, int level) {
  return with(file, [&](Handle& handle) { return handle.locks.lock(level); });
}
int file_unlock(sqlite3_file* file, int level) {
  const std::scoped_lock lock(handle_of(file).disk.mutex);
  handle_of(file).locks.unlock(level);
  return SQLITE_OK;
}
int file_check_reserved_lock(sqlite3_file* file, int* reserved) {
  return with(file, [&](Handle& handle) {
    *reserved = handle.locks.anyone_reserved() ? 1 : 0;
    return SQLITE_OK;
  });
}
int file_control(sqlite3_file* file, int operation, void* argument) {
  Handle& handle = handle_of(file);
  if (operation == SQLITE_FCNTL_PERSIST_WAL) {
    int& value = *static_cast<int*>(argument);
    handle.persist_wal = value < 0 ? handle.persist_wal : value;
    value = handle.persist_wal;
    return SQLITE_OK;
  }
  if (operation == SQLITE_FCNTL_VFSNAME) {
    *static_cast<char**>(argument) = sqlite3_mprintf("%s", handle.disk.zName);
    return SQLITE_OK;
  }
  return SQLITE_NOTFOUND;
}
int file_sector_size(sqlite3_file* /*file*/) { return static_cast<int>(kSectorBytes); }
int file_device_characteristics(sqlite3_file* /*file*/) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }
int file_shm_map(sqlite3_file* file, int region, int bytes, int extend, volatile void** memory) {
  return with(file,
              [&](Handle& handle) { return handle.locks.map(region, bytes, extend != 0, memory); });
}
int file_shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return with(file, [&](Handle& handle) { return handle.locks.lock_shm(offset, count, flags); });
}
/// Not the mutex: SQLite calls it half-way through a header that readers cannot use meanwhile. Not
/// a fence: ThreadSanitizer does not know it.
void file_shm_barrier(sqlite3_file* file) {
  handle_of(file).disk.barriers.fetch_add(1, std::memory_order_seq_cst);
}
int file_shm_unmap(sqlite3_file* file, int /*delete_flag*/) {
  const std::scoped_lock lock(handle_of(file).disk.mutex);
  handle_of(file).locks.unmap();
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 2;
  methods.xClose = file_close;
  methods.xRead = file_read;
  methods.xWrite = file_write;
  methods.xTruncate = file_truncate;
  methods.xSync = file_sync;
  methods.xFileSize = file_size;
  methods.xLock = file_lock;
  methods.xUnlock = file_unlock;
  methods.xCheckReservedLock = file_check_reserved_lock;
  methods.xFileControl = file_control;
  methods.xSectorSize = file_sector_size;
  methods.xDeviceCharacteristics = file_device_characteristics;
  methods.xShmMap = file_shm_map;
  methods.xShmLock = file_shm_lock;
  methods.xShmBarrier = file_shm_barrier;
  methods.xShmUnmap = file_shm_unmap;
  return methods;
}();

State& disk_of(sqlite3_vfs* vfs) { return *static_cast<State*>(vfs); }

int disk_open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  file->pMethods = nullptr;
  const int result = disk.open(path, file, flags);
  if (result == SQLITE_OK) {
    file->pMethods = &kMethods;
    if (out_flags != nullptr) {
      *out_flags = flags;
    }
  }
  return result;
}
int disk_delete(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  return disk.remove(path, sync_folder != 0);
}
int disk_access(sqlite3_vfs* vfs, const char* path, int /*flags*/, int* found) {
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  if (disk.dead) {
    return SQLITE_IOERR;
  }
  *found = find(disk.seen, path) != nullptr ? 1 : 0;
  return SQLITE_OK;
}
int disk_full_path_name(sqlite3_vfs* /*vfs*/, const char* path, int bytes, char* out) {
  sqlite3_snprintf(bytes, out, "%s", path);
  return SQLITE_OK;
}
int disk_randomness(sqlite3_vfs* vfs, int bytes, char* out) {
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  std::generate_n(out, bytes, [&disk] { return static_cast<char>(disk.dice.next()); });
  return bytes;
}
/// SQLite gives up after so many tries, however short they were: a thread that is in the way, and
/// not running, needs a chance.
int disk_sleep(sqlite3_vfs* vfs, int microseconds) {
  constexpr std::chrono::microseconds kLongest{1'000};
  State& disk = disk_of(vfs);
  {
    const std::scoped_lock lock(disk.mutex);
    disk.clock_ms += static_cast<std::uint64_t>(microseconds) / 1'000;
  }
  std::this_thread::sleep_for(std::min(kLongest, std::chrono::microseconds(microseconds)));
  return microseconds;
}
int disk_time_ms(sqlite3_vfs* vfs, sqlite3_int64* now) {
  constexpr sqlite3_int64 kJulianMsOf2026 = 212'633'985'600'000;
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  *now = kJulianMsOf2026 + static_cast<sqlite3_int64>(++disk.clock_ms);
  return SQLITE_OK;
}
int disk_last_error(sqlite3_vfs* vfs, int /*bytes*/, char* /*out*/) {
  State& disk = disk_of(vfs);
  const std::scoped_lock lock(disk.mutex);
  return disk.last_error;
}
int disk_time(sqlite3_vfs* vfs, double* now) {
  constexpr double kMsOfDay = 86'400'000.0;
  sqlite3_int64 now_ms = 0;
  const int result = disk_time_ms(vfs, &now_ms);
  *now = static_cast<double>(now_ms) / kMsOfDay;
  return result;
}

std::string next_name() {
  static std::atomic<int> count{0};
  return "faulty-" + std::to_string(++count);
}

}  // namespace

FaultyDisk::State::State(std::uint64_t seed) : sqlite3_vfs{}, name(next_name()), dice(seed) {
  iVersion = 2;
  szOsFile = sizeof(Handle);
  mxPathname = kPathBytesMax;
  zName = name.c_str();
  xOpen = disk_open;
  xDelete = disk_delete;
  xAccess = disk_access;
  xFullPathname = disk_full_path_name;
  xRandomness = disk_randomness;
  xSleep = disk_sleep;
  xCurrentTime = disk_time;
  xGetLastError = disk_last_error;
  xCurrentTimeInt64 = disk_time_ms;
}

FaultyDisk::FaultyDisk(std::uint64_t seed) : state_(std::make_unique<State>(seed)) {
  HOLDFAST_CHECK(sqlite3_vfs_register(state_.get(), 0) == SQLITE_OK, "SQLite takes the VFS");
}

FaultyDisk::~FaultyDisk() { sqlite3_vfs_unregister(state_.get()); }

const std::string& FaultyDisk::vfs_name() const { return state_->name; }

void FaultyDisk::reset(std::uint64_t seed, const Image& files) {
  const std::scoped_lock lock(state_->mutex);
  ++state_->generation;
  state_->forget_plans();
  state_->capacity.reset();
  state_->lies = false;
  state_->points = 0;
  state_->faults = 0;
  state_->clock_ms = 0;
  state_->dice = Dice(seed);
  state_->seen.clear();
  for (const auto& [path, bytes] : files) {
    state_->seen[path] = std::make_shared<Node>(Node{.file = DiskFile(bytes)});
  }
  state_->durable = state_->seen;
}

std::uint64_t FaultyDisk::io_points() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->points;
}

void FaultyDisk::count_reads(bool count) {
  const std::scoped_lock lock(state_->mutex);
  state_->reads_count = count;
}

void FaultyDisk::crash_at(std::uint64_t io_point) {
  const std::scoped_lock lock(state_->mutex);
  state_->dies_at = io_point;
}

void FaultyDisk::fail_at(std::uint64_t io_point, Fault fault) {
  const std::scoped_lock lock(state_->mutex);
  state_->plans.push_back({io_point, fault});
}

std::uint64_t FaultyDisk::faults() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->faults;
}

bool FaultyDisk::is_dead() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->dead;
}

void FaultyDisk::set_capacity(std::optional<std::size_t> bytes) {
  const std::scoped_lock lock(state_->mutex);
  state_->capacity = bytes;
}

void FaultyDisk::free_space() {
  const std::scoped_lock lock(state_->mutex);
  state_->full = false;
}

void FaultyDisk::ignore_syncs(bool ignore) {
  const std::scoped_lock lock(state_->mutex);
  state_->lies = ignore;
}

void FaultyDisk::crash() {
  const std::scoped_lock lock(state_->mutex);
  std::set<std::string> names;
  for (const Folder* folder : {&state_->seen, &state_->durable}) {
    for (const auto& [path, node] : *folder) {
      names.insert(path);
    }
  }
  Folder survivors;
  for (const std::string& path : names) {
    const bool same = find(state_->seen, path) == find(state_->durable, path);
    const Folder& from = same || state_->dice.one_in(2) ? state_->durable : state_->seen;
    if (find(from, path) != nullptr) {
      survivors[path] = from.at(path);
      survivors[path]->file.crash(state_->dice);
    }
  }
  state_->seen = survivors;
  state_->durable = std::move(survivors);
  state_->renew_locks();
  state_->forget_plans();
}

void FaultyDisk::kill() {
  const std::scoped_lock lock(state_->mutex);
  state_->renew_locks();
  state_->forget_plans();
}

FaultyDisk::Image FaultyDisk::files() const {
  const std::scoped_lock lock(state_->mutex);
  Image image;
  for (const auto& [path, node] : state_->seen) {
    image[path] = node->file.seen();
  }
  return image;
}

std::optional<std::string> FaultyDisk::bytes_of(const std::string& name) const {
  const std::scoped_lock lock(state_->mutex);
  const Node* node = find(state_->seen, name);
  return node == nullptr ? std::nullopt : std::optional(node->file.seen());
}

std::optional<std::string> FaultyDisk::durable_bytes_of(const std::string& name) const {
  const std::scoped_lock lock(state_->mutex);
  const Node* node = find(state_->durable, name);
  return node == nullptr ? std::nullopt : std::optional(node->file.durable());
}

void FaultyDisk::set_bytes(const std::string& name, const std::string& bytes) {
  const std::scoped_lock lock(state_->mutex);
  std::shared_ptr<Node>& node = state_->seen[name];
  if (node == nullptr) {
    node = std::make_shared<Node>();
  }
  node->file = DiskFile(bytes);
  state_->durable[name] = node;
}

void seed_sqlite(std::uint64_t seed) {
  // 0 would ask the default VFS for randomness.
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, static_cast<int>(seed % 0x7fffffffU) + 1,
                       nullptr);
}

}  // namespace holdfast::testing
