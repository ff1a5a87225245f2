// SPDX-License-Identifier: Apache-2.0
#include "gathered_log.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "page_checksums.hpp"

namespace holdfast::detail {

namespace {

// The log's own format: a header, then frames, each of which is a page with a header of its own.
constexpr sqlite3_int64 kLogHeaderBytes = 32;
constexpr int kFrameHeaderBytes = 24;
constexpr int kFrameBytes = kFrameHeaderBytes + kPageBytes;
constexpr std::size_t kCommitMarkAt = 4;  // The size of the database, if it ends a transaction.
constexpr std::size_t kCommitMarkBytes = 4;

/// SQLite's own VFS does not write 128 KiB or more at once.
constexpr std::size_t kGatheredMax = std::size_t{1} << 16;

/// The file grows by as much as there is, but no less than this and no more.
constexpr sqlite3_int64 kGrowthMin = sqlite3_int64{1} << 16;
constexpr sqlite3_int64 kGrowthMax = sqlite3_int64{1} << 20;

/// The base's own file object lies behind it in memory.
struct GatheredLog : sqlite3_file {
  enum class Expects : std::uint8_t { kHeader, kPage, kLastPage };
  Expects expects = Expects::kHeader;
  sqlite3_int64 begins_at = 0;
  std::vector<unsigned char> gathered;
  sqlite3_int64 room_to = 0;  // Up to here the file need not grow.

  sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }

  int write(const unsigned char* data, int bytes, sqlite3_int64 offset);
  /// `data` is a part of a transaction that goes on.
  int keep(const unsigned char* data, int bytes, sqlite3_int64 offset);
  int write_gathered();
  int make_room(sqlite3_int64 end);
  int grow(sqlite3_int64 from, sqlite3_int64 to);
};
static_assert(sizeof(GatheredLog) % sizeof(void*) == 0, "the base's file object is aligned");

bool is_header(int bytes, sqlite3_int64 offset) {
  return bytes == kFrameHeaderBytes && offset >= kLogHeaderBytes &&
         (offset - kLogHeaderBytes) % kFrameBytes == 0;
}

bool is_page(int bytes, sqlite3_int64 offset) {
  return bytes == kPageBytes && is_header(kFrameHeaderBytes, offset - kFrameHeaderBytes);
}

bool ends_transaction(const unsigned char* header) {
  const unsigned char* const mark = header + kCommitMarkAt;
  return std::any_of(mark, mark + kCommitMarkBytes, [](unsigned char byte) { return byte != 0; });
}

int GatheredLog::write(const unsigned char* data, int bytes, sqlite3_int64 offset) {
  const bool is_next = offset == begins_at + static_cast<sqlite3_int64>(gathered.size());
  if (expects == Expects::kHeader && is_header(bytes, offset)) {
    const int kept = keep(data, bytes, offset);
    if (kept == SQLITE_OK) {
      expects = ends_transaction(data) ? Expects::kLastPage : Expects::kPage;
    }
    return kept;
  }
  if (expects != Expects::kHeader && is_next && is_page(bytes, offset)) {
    const bool is_last = expects == Expects::kLastPage;
    expects = Expects::kHeader;
    const int kept = keep(data, bytes, offset);
    return kept == SQLITE_OK && is_last ? write_gathered() : kept;
  }
  if (offset == 0) {
    room_to = 0;  // The log begins anew, and somebody else may have made its file short.
  }
  const int result = write_gathered();
  return result == SQLITE_OK ? base()->pMethods->xWrite(base(), data, bytes, offset) : result;
}

int GatheredLog::keep(const unsigned char* data, int bytes, sqlite3_int64 offset) {
  const bool is_next = offset == begins_at + static_cast<sqlite3_int64>(gathered.size());
  if (!is_next || gathered.size() + static_cast<std::size_t>(bytes) > kGatheredMax) {
    const int result = write_gathered();
    if (result != SQLITE_OK) {
      return result;
    }
    begins_at = offset;
  }
  gathered.insert(gathered.end(), data, data + bytes);
  return SQLITE_OK;
}

/// What cannot be written is gone, as it is for SQLite, which gives up the transaction.
int GatheredLog::write_gathered() {
  expects = Expects::kHeader;
  if (gathered.empty()) {
    return SQLITE_OK;
  }
  int result = make_room(begins_at + static_cast<sqlite3_int64>(gathered.size()));
  if (result == SQLITE_OK) {
    result = base()->pMethods->xWrite(base(), gathered.data(), static_cast<int>(gathered.size()),
                                      begins_at);
  }
  begins_at += static_cast<sqlite3_int64>(gathered.size());
  gathered.clear();
  return result;
}

int GatheredLog::make_room(sqlite3_int64 end) {
  if (end <= room_to) {
    return SQLITE_OK;
  }
  sqlite3_int64 size = 0;
  int result = base()->pMethods->xFileSize(base(), &size);
  if (result != SQLITE_OK || end <= size) {
    room_to = size;
    return result;
  }
  room_to = end + std::clamp(end, kGrowthMin, kGrowthMax);
  result = grow(size, room_to);
  if (result == SQLITE_FULL) {
    // What has to be written may fit all the same.
    room_to = std::numeric_limits<sqlite3_int64>::max();
    return base()->pMethods->xTruncate(base(), size);
  }
  return result;
}

int GatheredLog::grow(sqlite3_int64 from, sqlite3_int64 to) {
  const std::vector<unsigned char> zeros(kGatheredMax);
  int result = SQLITE_OK;
  while (result == SQLITE_OK && from < to) {
    const auto bytes = static_cast<int>(std::min<sqlite3_int64>(kGatheredMax, to - from));
    result = base()->pMethods->xWrite(base(), zeros.data(), bytes, from);
    from += bytes;
  }
  return result;
}

GatheredLog& log_in(sqlite3_file* file) { return *static_cast<GatheredLog*>(file); }
sqlite3_file* base_of(sqlite3_file* file) { return log_in(file).base(); }

int write_log(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
  return log_in(file).write(static_cast<const unsigned char*>(data), bytes, offset);
}

// What follows sees the log as if nothing had been kept back.

int read_log(sqlite3_file* file, void* out, int bytes, sqlite3_int64 offset) {
  const int result = log_in(file).write_gathered();
  return result == SQLITE_OK ? base_of(file)->pMethods->xRead(base_of(file), out, bytes, offset)
                             : result;
}
int truncate_log(sqlite3_file* file, sqlite3_int64 size) {
  log_in(file).room_to = 0;
  const int result = log_in(file).write_gathered();
  return result == SQLITE_OK ? base_of(file)->pMethods->xTruncate(base_of(file), size) : result;
}
int sync_log_file(sqlite3_file* file, int flags) {
  const int result = log_in(file).write_gathered();
  return result == SQLITE_OK ? base_of(file)->pMethods->xSync(base_of(file), flags) : result;
}
int size_of_log(sqlite3_file* file, sqlite3_int64* size) {
  const int result = log_in(file).write_gathered();
  return result == SQLITE_OK ? base_of(file)->pMethods->xFileSize(base_of(file), size) : result;
}
/// A transaction that did not come to its end leaves nothing.
int close_log(sqlite3_file* file) {
  const int result = base_of(file)->pMethods->xClose(base_of(file));
  std::destroy_at(&log_in(file));
  return result;
}

// And this does not look at it.

int lock_log(sqlite3_file* file, int level) {
  return base_of(file)->pMethods->xLock(base_of(file), level);
}
int unlock_log(sqlite3_file* file, int level) {
  return base_of(file)->pMethods->xUnlock(base_of(file), level);
}
int check_reserved_lock_of_log(sqlite3_file* file, int* reserved) {
  return base_of(file)->pMethods->xCheckReservedLock(base_of(file), reserved);
}
int control_log(sqlite3_file* file, int operation, void* argument) {
  return base_of(file)->pMethods->xFileControl(base_of(file), operation, argument);
}
int sector_size_of_log(sqlite3_file* file) {
  return base_of(file)->pMethods->xSectorSize(base_of(file));
}
int characteristics_of_log(sqlite3_file* file) {
  return base_of(file)->pMethods->xDeviceCharacteristics(base_of(file));
}

constexpr sqlite3_io_methods log_methods() {
  sqlite3_io_methods all{};
  all.iVersion = 1;
  all.xClose = close_log;
  all.xRead = read_log;
  all.xWrite = write_log;
  all.xTruncate = truncate_log;
  all.xSync = sync_log_file;
  all.xFileSize = size_of_log;
  all.xLock = lock_log;
  all.xUnlock = unlock_log;
  all.xCheckReservedLock = check_reserved_lock_of_log;
  all.xFileControl = control_log;
  all.xSectorSize = sector_size_of_log;
  all.xDeviceCharacteristics = characteristics_of_log;
  return all;
}
constexpr sqlite3_io_methods kLogMethods = log_methods();

}  // namespace

int gathered_log_bytes() noexcept { return static_cast<int>(sizeof(GatheredLog)); }

int open_gathered_log(sqlite3_vfs& under, const char* name, sqlite3_file* opened, int flags,
                      int* out_flags) {
  auto* const log = new (opened) GatheredLog{};
  log->base()->pMethods = nullptr;
  const int result = under.xOpen(&under, name, log->base(), flags, out_flags);
  if (result == SQLITE_OK) {
    log->pMethods = &kLogMethods;
    return SQLITE_OK;
  }
  if (log->base()->pMethods != nullptr) {
    log->base()->pMethods->xClose(log->base());
  }
  std::destroy_at(log);
  opened->pMethods = nullptr;
  return result;
}

}  // namespace holdfast::detail
