// SPDX-License-Identifier: Apache-2.0
#include "store_sqlite/page_checksums.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <holdfast/error.hpp>

#include "gathered_log.hpp"

namespace holdfast::detail {
namespace {

constexpr std::size_t kPageSize = kPageBytes;
constexpr std::size_t kHashedSize = kPageSize - kChecksumBytes;
/// SQLite reads less than its smallest page only where it looks at the header before it has a lock.
constexpr int kSmallestPageBytes = 512;
/// SQLite keeps its locks in the page at 1 GiB, and neither reads nor writes it.
constexpr std::uint64_t kLockPage = (std::uint64_t{1} << 30U) / kPageSize + 1;

// Fields of the header of page 1.
constexpr std::array<char, 16> kMagic = {'S', 'Q', 'L', 'i', 't', 'e', ' ', 'f',
                                         'o', 'r', 'm', 'a', 't', ' ', '3', '\0'};
constexpr std::size_t kPageSizeAt = 16;
constexpr std::size_t kReservedAt = 20;
constexpr std::size_t kApplicationIdAt = 68;
constexpr std::array<unsigned char, 4> kApplicationIdBytes = {
    kApplicationId >> 24U, (kApplicationId >> 16U) & 0xffU, (kApplicationId >> 8U) & 0xffU,
    kApplicationId & 0xffU};

using Page = std::array<unsigned char, kPageSize>;

template <std::size_t kSize, class Byte>
bool has_at(const Page& page, std::size_t at, const std::array<Byte, kSize>& bytes) {
  return std::memcmp(page.data() + at, bytes.data(), kSize) == 0;
}

bool has_magic(const Page& page) { return has_at(page, 0, kMagic); }

bool has_application_id(const Page& page) {
  return has_at(page, kApplicationIdAt, kApplicationIdBytes);
}

bool has_room(const Page& page) {
  const int page_bytes = page[kPageSizeAt] << 8 | page[kPageSizeAt + 1];
  return page_bytes == kPageBytes && page[kReservedAt] == kChecksumBytes;
}

XXH64_canonical_t checksum(const Page& page, std::uint64_t number) {
  XXH64_canonical_t bytes;
  XXH64_canonicalFromHash(&bytes, XXH3_64bits_withSeed(page.data(), kHashedSize, number));
  return bytes;
}

void seal(Page& page, std::uint64_t number) {
  const XXH64_canonical_t bytes = checksum(page, number);
  std::memcpy(page.data() + kHashedSize, &bytes, sizeof(bytes));
}

bool is_sound(const Page& page, std::uint64_t number) {
  const XXH64_canonical_t bytes = checksum(page, number);
  return std::memcmp(page.data() + kHashedSize, &bytes, sizeof(bytes)) == 0;
}

/// Whether page 1 was ours until something hit the very bytes that we know it by.
bool was_a_store(Page page) {
  std::memcpy(page.data(), kMagic.data(), kMagic.size());
  std::memcpy(page.data() + kApplicationIdAt, kApplicationIdBytes.data(),
              kApplicationIdBytes.size());
  return is_sound(page, 1);
}

enum class Kind : std::uint8_t {
  kUnknown,  ///< Empty, or not begun with page 1: the next to write a page creates it.
  kStore,
  kForeign,
};

Kind kind_of(const Page& first) {
  if ((has_magic(first) && has_application_id(first)) || was_a_store(first)) {
    return Kind::kStore;
  }
  return has_magic(first) ? Kind::kForeign : Kind::kUnknown;
}

/// A main database. The base's own file object lies behind it in memory.
struct CheckedFile : sqlite3_file {
  Kind kind = Kind::kUnknown;
  std::uint64_t damaged = 0;

  sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  int read_base(void* out, int bytes, sqlite3_int64 offset) {
    return base()->pMethods->xRead(base(), out, bytes, offset);
  }

  int judge();
  int verify(const void* data, int bytes, sqlite3_int64 offset, bool whole);
  int admit(const Page& page, std::uint64_t number);
  int report(std::uint64_t number);
};
static_assert(sizeof(CheckedFile) % sizeof(void*) == 0, "the base's file object is aligned");

std::uint64_t page_number(sqlite3_int64 offset) {
  return static_cast<std::uint64_t>(offset) / kPageSize + 1;
}

bool is_page(int bytes, sqlite3_int64 offset) {
  return bytes == kPageBytes && offset % kPageBytes == 0;
}

int CheckedFile::report(std::uint64_t number) {
  damaged = number;
  return SQLITE_IOERR_DATA;
}

/// Decides by what is in the file now: another connection may have made it a store.
int CheckedFile::judge() {
  Page first;
  const int result = read_base(first.data(), kPageBytes, 0);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) {
    return result;
  }
  kind = kind_of(first);
  return SQLITE_OK;
}

/// Of `data` that was read; `whole`: the file did not end before it.
int CheckedFile::verify(const void* data, int bytes, sqlite3_int64 offset, bool whole) {
  const std::uint64_t number = page_number(offset);
  if (!whole) {
    sqlite3_int64 size = 0;
    const int result = base()->pMethods->xFileSize(base(), &size);
    if (result != SQLITE_OK) {
      return result;
    }
    return size == 0 ? SQLITE_IOERR_SHORT_READ : report(number);
  }
  if (!is_page(bytes, offset)) {
    return report(number);  // Only a damaged header makes SQLite believe in another page size.
  }
  Page page;
  std::memcpy(page.data(), data, kPageSize);
  return is_sound(page, number) ? SQLITE_OK : report(number);
}

/// Before page `number` is written: whether it gets a checksum, or must not be written at all.
int CheckedFile::admit(const Page& page, std::uint64_t number) {
  const bool first = number == 1 && has_magic(page);
  if (kind == Kind::kUnknown && !first) {
    const int result = judge();
    if (result != SQLITE_OK) {
      return result;
    }
    kind = kind == Kind::kUnknown ? Kind::kStore : kind;
  } else if (kind == Kind::kUnknown) {
    kind = has_room(page) ? Kind::kStore : Kind::kForeign;
  } else if (kind == Kind::kForeign && first && has_application_id(page) && has_room(page)) {
    kind = Kind::kStore;
  } else if (kind == Kind::kStore && first && !has_room(page)) {
    return SQLITE_IOERR_WRITE;  // The checksum would overwrite what belongs to SQLite.
  }
  return SQLITE_OK;
}

CheckedFile& database(sqlite3_file* file) { return *static_cast<CheckedFile*>(file); }
sqlite3_file* base(sqlite3_file* file) { return database(file).base(); }

int read(sqlite3_file* opened, void* out, int bytes, sqlite3_int64 offset) {
  CheckedFile& file = database(opened);
  const int result = file.read_base(out, bytes, offset);
  if (bytes < kSmallestPageBytes || (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ)) {
    return result;
  }
  if (file.kind == Kind::kUnknown || (file.kind == Kind::kForeign && offset == 0)) {
    const int judged = file.judge();
    if (judged != SQLITE_OK) {
      return judged;
    }
  }
  return file.kind == Kind::kStore ? file.verify(out, bytes, offset, result == SQLITE_OK) : result;
}

int write(sqlite3_file* opened, const void* data, int bytes, sqlite3_int64 offset) {
  CheckedFile& file = database(opened);
  sqlite3_file* under = file.base();
  if (!is_page(bytes, offset)) {
    if (file.kind == Kind::kStore) {
      return SQLITE_IOERR_WRITE;
    }
    file.kind = Kind::kForeign;
    return under->pMethods->xWrite(under, data, bytes, offset);
  }
  Page page;
  std::memcpy(page.data(), data, kPageSize);
  const std::uint64_t number = page_number(offset);
  const int admitted = file.admit(page, number);
  if (admitted != SQLITE_OK) {
    return admitted;
  }
  if (file.kind == Kind::kStore) {
    seal(page, number);
  }
  return under->pMethods->xWrite(under, page.data(), bytes, offset);
}

int truncate(sqlite3_file* opened, sqlite3_int64 size) {
  const int result = base(opened)->pMethods->xTruncate(base(opened), size);
  if (result == SQLITE_OK && size == 0) {
    database(opened).kind = Kind::kUnknown;  // A creation was rolled back.
  }
  return result;
}

int file_control(sqlite3_file* file, int operation, void* argument) {
  const int result = base(file)->pMethods->xFileControl(base(file), operation, argument);
  if (operation == SQLITE_FCNTL_VFSNAME && result == SQLITE_OK) {
    char*& name = *static_cast<char**>(argument);
    name = sqlite3_mprintf("holdfast/%z", name);
  }
  return result;
}

// What follows goes to the base as it is.

int close(sqlite3_file* file) { return base(file)->pMethods->xClose(base(file)); }
int sync(sqlite3_file* file, int flags) { return base(file)->pMethods->xSync(base(file), flags); }
int file_size(sqlite3_file* file, sqlite3_int64* size) {
  return base(file)->pMethods->xFileSize(base(file), size);
}
int lock(sqlite3_file* file, int level) { return base(file)->pMethods->xLock(base(file), level); }
int unlock(sqlite3_file* file, int level) {
  return base(file)->pMethods->xUnlock(base(file), level);
}
int check_reserved_lock(sqlite3_file* file, int* reserved) {
  return base(file)->pMethods->xCheckReservedLock(base(file), reserved);
}
int sector_size(sqlite3_file* file) { return base(file)->pMethods->xSectorSize(base(file)); }
int device_characteristics(sqlite3_file* file) {
  return base(file)->pMethods->xDeviceCharacteristics(base(file));
}
int shm_map(sqlite3_file* file, int region, int bytes, int extend, volatile void** memory) {
  return base(file)->pMethods->xShmMap(base(file), region, bytes, extend, memory);
}
int shm_lock(sqlite3_file* file, int offset, int count, int flags) {
  return base(file)->pMethods->xShmLock(base(file), offset, count, flags);
}
void shm_barrier(sqlite3_file* file) { base(file)->pMethods->xShmBarrier(base(file)); }
int shm_unmap(sqlite3_file* file, int delete_flag) {
  return base(file)->pMethods->xShmUnmap(base(file), delete_flag);
}

/// Version 2 has shared memory for the WAL, and no memory mapping of the file, which would go past
/// the checksums.
constexpr sqlite3_io_methods methods(int version) {
  sqlite3_io_methods all{};
  all.iVersion = version;
  all.xClose = close;
  all.xRead = read;
  all.xWrite = write;
  all.xTruncate = truncate;
  all.xSync = sync;
  all.xFileSize = file_size;
  all.xLock = lock;
  all.xUnlock = unlock;
  all.xCheckReservedLock = check_reserved_lock;
  all.xFileControl = file_control;
  all.xSectorSize = sector_size;
  all.xDeviceCharacteristics = device_characteristics;
  all.xShmMap = shm_map;
  all.xShmLock = shm_lock;
  all.xShmBarrier = shm_barrier;
  all.xShmUnmap = shm_unmap;
  return all;
}
constexpr sqlite3_io_methods kMethods = methods(2);
constexpr sqlite3_io_methods kMethodsWithoutShm = methods(1);

struct ChecksumVfs : sqlite3_vfs {
  std::string name;
  sqlite3_vfs* under = nullptr;
};

sqlite3_vfs* base(sqlite3_vfs* vfs) { return static_cast<ChecksumVfs*>(vfs)->under; }

int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* opened, int flags, int* out_flags) {
  sqlite3_vfs* under = base(vfs);
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    return open_gathered_log(*under, name, opened, flags, out_flags);
  }
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
    return under->xOpen(under, name, opened, flags, out_flags);
  }
  auto* file = new (opened) CheckedFile{};
  file->base()->pMethods = nullptr;
  int result = under->xOpen(under, name, file->base(), flags, out_flags);
  if (result == SQLITE_OK) {
    result = file->judge();
  }
  const sqlite3_io_methods* below = file->base()->pMethods;
  if (result == SQLITE_OK) {
    file->pMethods = below->iVersion >= 2 ? &kMethods : &kMethodsWithoutShm;
  } else if (below != nullptr) {
    below->xClose(file->base());
  }
  return result;
}

int remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  return base(vfs)->xDelete(base(vfs), name, sync_folder);
}
int access(sqlite3_vfs* vfs, const char* name, int flags, int* found) {
  return base(vfs)->xAccess(base(vfs), name, flags, found);
}
int full_path_name(sqlite3_vfs* vfs, const char* name, int bytes, char* out) {
  return base(vfs)->xFullPathname(base(vfs), name, bytes, out);
}
void* dl_open(sqlite3_vfs* vfs, const char* name) { return base(vfs)->xDlOpen(base(vfs), name); }
void dl_error(sqlite3_vfs* vfs, int bytes, char* out) {
  base(vfs)->xDlError(base(vfs), bytes, out);
}
using Symbol = void (*)();
Symbol dl_symbol(sqlite3_vfs* vfs, void* library, const char* name) {
  return base(vfs)->xDlSym(base(vfs), library, name);
}
void dl_close(sqlite3_vfs* vfs, void* library) { base(vfs)->xDlClose(base(vfs), library); }
int randomness(sqlite3_vfs* vfs, int bytes, char* out) {
  return base(vfs)->xRandomness(base(vfs), bytes, out);
}
int sleep(sqlite3_vfs* vfs, int microseconds) { return base(vfs)->xSleep(base(vfs), microseconds); }
int current_time(sqlite3_vfs* vfs, double* now) { return base(vfs)->xCurrentTime(base(vfs), now); }
int last_error(sqlite3_vfs* vfs, int bytes, char* out) {
  return base(vfs)->xGetLastError == nullptr ? 0 : base(vfs)->xGetLastError(base(vfs), bytes, out);
}
int current_time_ms(sqlite3_vfs* vfs, sqlite3_int64* now) {
  return base(vfs)->xCurrentTimeInt64(base(vfs), now);
}

std::unique_ptr<ChecksumVfs> make_vfs(std::string name, sqlite3_vfs* under) {
  auto vfs = std::make_unique<ChecksumVfs>();
  vfs->name = std::move(name);
  vfs->under = under;
  vfs->iVersion = under->iVersion >= 2 ? 2 : 1;
  vfs->szOsFile =
      std::max(static_cast<int>(sizeof(CheckedFile)), gathered_log_bytes()) + under->szOsFile;
  vfs->mxPathname = under->mxPathname;
  vfs->zName = vfs->name.c_str();
  vfs->xOpen = open;
  vfs->xDelete = remove;
  vfs->xAccess = access;
  vfs->xFullPathname = full_path_name;
  vfs->xDlOpen = under->xDlOpen == nullptr ? nullptr : dl_open;
  vfs->xDlError = under->xDlError == nullptr ? nullptr : dl_error;
  vfs->xDlSym = under->xDlSym == nullptr ? nullptr : dl_symbol;
  vfs->xDlClose = under->xDlClose == nullptr ? nullptr : dl_close;
  vfs->xRandomness = randomness;
  vfs->xSleep = sleep;
  vfs->xCurrentTime = current_time;
  vfs->xGetLastError = last_error;
  vfs->xCurrentTimeInt64 = current_time_ms;
  return vfs;
}

CheckedFile* database_of(sqlite3* db) {
  sqlite3_file* file = nullptr;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file)) !=
          SQLITE_OK ||
      file == nullptr || file->pMethods == nullptr || file->pMethods->xRead != read) {
    return nullptr;
  }
  return &database(file);
}

}  // namespace

std::string page_checksum_vfs(const std::string& base_vfs) {
  // SQLite's own table of VFSs is global as well, and asks that an entry stays where it is.
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<ChecksumVfs>> registered;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<ChecksumVfs>& vfs = registered[base_vfs];
  if (vfs == nullptr) {
    sqlite3_vfs* under = sqlite3_vfs_find(base_vfs.empty() ? nullptr : base_vfs.c_str());
    if (under == nullptr) {
      throw InvalidArgument("SQLite knows no VFS '" + base_vfs + "'");
    }
    auto made = make_vfs(base_vfs.empty() ? "holdfast" : "holdfast-" + base_vfs, under);
    if (sqlite3_vfs_register(made.get(), 0) != SQLITE_OK) {
      throw InvalidArgument("SQLite does not take the VFS '" + made->name + "'");
    }
    vfs = std::move(made);
  }
  return vfs->name;
}

bool has_page_checksums(sqlite3* db) {
  CheckedFile* file = database_of(db);
  return file != nullptr && file->kind == Kind::kStore;
}

std::optional<std::uint64_t> damaged_page(sqlite3* db) {
  CheckedFile* file = database_of(db);
  return file == nullptr || file->damaged == 0 ? std::nullopt : std::optional(file->damaged);
}

std::vector<std::uint64_t> find_damaged_pages(sqlite3* db) {
  std::vector<std::uint64_t> found;
  CheckedFile* file = database_of(db);
  sqlite3_int64 size = 0;
  if (file == nullptr || file->kind != Kind::kStore || file_size(file, &size) != SQLITE_OK) {
    return found;
  }
  Page page;
  for (sqlite3_int64 offset = 0; offset < size; offset += kPageBytes) {
    const std::uint64_t number = page_number(offset);
    const bool read = file->read_base(page.data(), kPageBytes, offset) == SQLITE_OK;
    if (number != kLockPage && !(read && is_sound(page, number))) {
      found.push_back(number);
    }
  }
  return found;
}

}  // namespace holdfast::detail
