// SPDX-License-Identifier: Apache-2.0
#include "store/sidecar.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/error.hpp>
#include <holdfast/store_error.hpp>

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using Shared32 = std::atomic_ref<std::uint32_t>;
using Shared64 = std::atomic_ref<std::uint64_t>;
static_assert(Shared32::is_always_lock_free && Shared64::is_always_lock_free,
              "shared between processes");

constexpr std::array<char, 8> kMagic = {'h', 'o', 'l', 'd', 's', 'i', 'd', 'e'};
constexpr std::uint32_t kLayout = 1;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMappedBytes = kPageBytes + NewsRing::kBytes;
constexpr std::size_t kBallastBytes = std::size_t{256} * 1024;

// Nobody rings the bell for one who died with the turn, or between writing and ringing.
constexpr Duration kTurnNapMax = 20ms;
constexpr Duration kNewsNapMax = 500ms;

// Opening takes well under a millisecond, but for a process that is stopped in the middle of it.
constexpr Duration kOpenPoll = 1ms;
constexpr Duration kOpenPatience = 10s;

/// Beginning of the file, the same in every layout.
struct FileHead {
  std::array<char, 8> magic;
  std::uint32_t layout;
  std::uint32_t unused;
};

/// A number with its check. There are two, written one after the other, so that one of them holds
/// at any moment a process may die in; and both are in one sector of the disk.
struct Mark {
  std::uint64_t number;
  std::uint64_t check;
};

constexpr std::uint64_t check_of(std::uint64_t number) noexcept {
  return std::rotl((number ^ 0x6d61726b'686f6c64U) * 0x9e3779b9'7f4a7c15U, 29);
}

/// A word to sleep on, until somebody rings.
struct alignas(64) BellWord {
  std::uint32_t rings;
  std::uint32_t waiters;  ///< At least those alive: the killed are counted until the next reset.
};

struct alignas(64) Counters {
  NewsRing::Positions news;
  std::uint64_t last_id;
  std::uint64_t last_place;
  std::uint32_t unsettled;  ///< A turn has begun, and not ended well.
};

Duration nap_length(TimePoint until, Duration nap_max) noexcept {
  const TimePoint now = MonotonicTime::now();
  // Compared before subtracted: `until` may be as far away as numbers go.
  return until <= now ? Duration::zero() : std::min(until - now, nap_max);
}

// Not FUTEX_PRIVATE: the kernel knows a shared word by its place in the file. A sleeper is woken
// for any of its bits.
constexpr std::uint32_t kAllBits = ~std::uint32_t{0};

void futex_wait(std::uint32_t& word, std::uint32_t seen, Duration at_most,
                std::uint32_t bits) noexcept {
  // With bits the kernel takes a moment of CLOCK_MONOTONIC instead of a length.
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  const Duration moment = std::chrono::seconds(until.tv_sec) + Duration(until.tv_nsec) + at_most;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(moment);
  until = {.tv_sec = seconds.count(), .tv_nsec = (moment - seconds).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &until, nullptr, bits);
}

void futex_wake_all(std::uint32_t& word, std::uint32_t bits) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, bits);
}

int open_or_create(const std::filesystem::path& path) noexcept {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
                S_IRUSR | S_IWUSR);
}

int allocate_blocks(int fd, std::size_t from, std::size_t bytes) noexcept {
  int error = 0;
  do {
    error = ::posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

std::string quoted(const std::filesystem::path& path) {
  std::string text(1, '\'');
  text += path.string();
  text += '\'';
  return text;
}

bool all_zero(std::span<const char> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

class CountedWaiter {
 public:
  explicit CountedWaiter(BellWord& bell) noexcept : count_(bell.waiters) { ++count_; }
  CountedWaiter(const CountedWaiter&) = delete;
  CountedWaiter& operator=(const CountedWaiter&) = delete;
  ~CountedWaiter() { --count_; }

 private:
  Shared32 count_;
};

}  // namespace

enum class Sidecar::Bell : std::uint8_t { kTurn, kNews };

/// Bytes of the file to lock; what is in them, or whether there are any, does not matter.
///
/// The line is made of bytes, too. Who has to wait takes a number, which only has to differ from
/// those of the others, and locks the byte of that number. So the kernel knows who is in line, the
/// dead are not, and one call tells whether somebody stands before a given place.
struct Sidecar::Bytes {
  off_t begin;
  off_t length;

  static constexpr Bytes turn() { return {0, 1}; }      ///< Of who has the turn.
  static constexpr Bytes attached() { return {1, 1}; }  ///< Shared by all; alone, of who resets.
  static constexpr Bytes opening() { return {2, 1}; }   ///< Nobody attaches to a half-made file.

  static constexpr off_t kLine = 4096;
  static constexpr std::uint64_t kPlaces = std::uint64_t{1} << 48;
  static constexpr Bytes line() { return {kLine, 0}; }  ///< Length 0: without an end.
  static constexpr Bytes place(off_t at) { return {at, 1}; }
  static constexpr Bytes before(off_t at) { return {kLine, at - kLine}; }
};

/// The mapped part of the file.
struct Sidecar::Page {
  FileHead head;
  std::array<Mark, 2> marks;
  std::array<BellWord, 2> bells;
  Counters counters;
  alignas(kPageBytes) std::array<std::uint64_t, NewsRing::kWords> ring;

  [[nodiscard]] BellWord& bell(Bell which) { return bells[static_cast<std::size_t>(which)]; }
  [[nodiscard]] std::uint64_t mark() noexcept;
  void set_mark(std::uint64_t number) noexcept;
  void reset() noexcept;
};

std::uint64_t Sidecar::Page::mark() noexcept {
  for (Mark& mark : marks) {
    const std::uint64_t number = Shared64(mark.number).load(std::memory_order_acquire);
    if (Shared64(mark.check).load(std::memory_order_acquire) == check_of(number)) {
      return number;
    }
  }
  return 0;
}

void Sidecar::Page::set_mark(std::uint64_t number) noexcept {
  for (Mark& mark : marks) {
    Shared64(mark.number).store(number, std::memory_order_release);
    Shared64(mark.check).store(check_of(number), std::memory_order_release);
  }
}

/// The ring's words may stay as they are: nothing is read beyond what `counters` says.
void Sidecar::Page::reset() noexcept {
  head = {.magic = kMagic, .layout = kLayout, .unused = 0};
  set_mark(mark());
  bells = {};
  counters = {};
}

void Sidecar::Unmap::operator()(Page* page) const noexcept { ::munmap(page, sizeof(Page)); }

Sidecar::File::~File() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

// Opening.

Sidecar::Sidecar(std::filesystem::path path)
    : path_(std::move(path)),
      file_(open_or_create(path_)),
      page_(attach()),
      news_(page_->counters.news, page_->ring),
      id_(Shared64(page_->counters.last_id).fetch_add(1) + 1),
      position_(news_.head()) {}

// Closing frees the locks, not unlocking: in a forked child they are the parent's, and stay.
Sidecar::~Sidecar() = default;

std::unique_ptr<Sidecar::Page, Sidecar::Unmap> Sidecar::attach() {
  static_assert(sizeof(Page) == kMappedBytes && offsetof(Page, ring) == kPageBytes);
  if (file_.fd() < 0) {
    fail("cannot be opened", errno);
  }
  wait_to_open();
  inspect();
  const bool alone = try_lock(Bytes::attached(), F_WRLCK);
  allocate(alone);
  auto page = map();
  if (alone) {
    page->reset();
  }
  if (!try_lock(Bytes::attached(), F_RDLCK)) {
    throw StoreBusy(quoted(path_) + " is locked by a program that is not Holdfast: end that one");
  }
  unlock(Bytes::opening());
  return page;
}

void Sidecar::wait_to_open() {
  const TimePoint until = MonotonicTime::now() + kOpenPatience;
  while (!try_lock(Bytes::opening(), F_WRLCK)) {
    if (MonotonicTime::now() >= until) {
      throw StoreBusy(quoted(path_) +
                      " is being opened by another process that does not get ahead: see whether "
                      "it is stopped");
    }
    const timespec nap{.tv_sec = 0, .tv_nsec = kOpenPoll.count()};
    ::nanosleep(&nap, nullptr);
  }
}

/// Throws, and changes nothing, unless the file is ours or empty.
void Sidecar::inspect() {
  struct stat info{};
  if (::fstat(file_.fd(), &info) != 0) {
    fail("cannot be examined", errno);
  }
  const std::string name = quoted(path_);
  std::array<char, kPageBytes> bytes{};
  const ssize_t count =
      S_ISREG(info.st_mode) ? ::pread(file_.fd(), bytes.data(), bytes.size(), 0) : 0;
  if (count < 0) {
    fail("cannot be read", errno);
  }
  FileHead head{};
  std::memcpy(&head, bytes.data(), sizeof head);
  // A loss of power may keep the size of a new file but not its bytes.
  const bool fresh =
      all_zero(bytes) && info.st_size <= static_cast<off_t>(kMappedBytes + kBallastBytes);
  if (!S_ISREG(info.st_mode) || (!fresh && head.magic != kMagic)) {
    throw NotAStore(name + " is no file of Holdfast, and in the place of one: move it away");
  }
  if (head.layout > kLayout) {
    throw NewerFormat(name + " was written by a newer version of Holdfast (layout " +
                      std::to_string(head.layout) + ", this one knows " + std::to_string(kLayout) +
                      "): use that version");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw InvalidArgument(name + " may be written by others than its owner: chmod 600 it");
  }
}

/// A mapped page without a block on the disk would be a fatal signal as soon as the disk is full.
void Sidecar::allocate(bool alone) {
  struct stat info{};
  if (::fstat(file_.fd(), &info) != 0) {
    fail("cannot be examined", errno);
  }
  const bool long_enough = info.st_size >= static_cast<off_t>(kMappedBytes);
  if (!alone) {
    // Where blocks cannot be allocated they are written instead, which is for one who is alone.
    if (!long_enough) {
      throw StoreBusy(quoted(path_) + " was shortened while in use: end all that use it");
    }
    return;
  }
  constexpr std::size_t kBlockBytes = 512;
  if (long_enough && info.st_blocks >= static_cast<blkcnt_t>(kMappedBytes / kBlockBytes)) {
    return;
  }
  if (const int error = allocate_blocks(file_.fd(), 0, kMappedBytes); error != 0) {
    fail("cannot be given its size", error);
  }
}

std::unique_ptr<Sidecar::Page, Sidecar::Unmap> Sidecar::map() {
  void* const memory =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (memory == MAP_FAILED) {
    fail("cannot be mapped into memory", errno);
  }
  // A mapping keeps the locks alive like a descriptor, but a forked child would hardly think of it.
  ::madvise(memory, sizeof(Page), MADV_DONTFORK);
  return std::unique_ptr<Page, Unmap>(static_cast<Page*>(memory));
}

void Sidecar::fail(std::string_view what, int error) const {
  const std::string text =
      quoted(path_) + " " + std::string(what) + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      throw StoreFull(text + "; free some space, then try again");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
    case EAGAIN:
      throw StoreBusy(text + "; raise the limit, or try again with less in use");
    case EINVAL:
    case ENODEV:
    case ENOSYS:
    case EOPNOTSUPP:
      throw Unsupported(text + "; use a file system that has file locks and shared mappings");
    case EIO:
      throw StoreFailed(text + "; see what the system's log says about the disk");
    case ELOOP:
      throw InvalidArgument(text + "; a symbolic link is not followed: name the file itself");
    case EACCES:
    case EPERM:
    case EROFS:
      throw NoAccess(text + "; it has to be a place where this user may write");
    default:
      throw InvalidArgument(text);
  }
}

// Locks. Those of an open file description: they part two objects of one process, too, and the
// kernel frees them when the file is closed, however that comes about.

struct flock Sidecar::lock_of(Bytes bytes, short type) noexcept {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = bytes.begin;
  lock.l_len = bytes.length;
  return lock;
}

bool Sidecar::try_lock(Bytes bytes, short type) {
  struct flock lock = lock_of(bytes, type);
  while (::fcntl(file_.fd(), F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return false;
    }
    if (errno != EINTR) {
      fail("cannot be locked", errno);
    }
  }
  return true;
}

void Sidecar::unlock(Bytes bytes) noexcept {
  struct flock lock = lock_of(bytes, F_UNLCK);
  const int result = ::fcntl(file_.fd(), F_OFD_SETLK, &lock);
  HOLDFAST_CHECK(result == 0, "what is locked can be unlocked");
}

/// Where a lock begins, any one, that somebody else has on some of the bytes.
std::optional<off_t> Sidecar::held_by_other(Bytes bytes) const noexcept {
  struct flock lock = lock_of(bytes, F_WRLCK);
  if (::fcntl(file_.fd(), F_OFD_GETLK, &lock) != 0) {
    return bytes.begin;  // Unknown: to be careful costs time only.
  }
  return lock.l_type == F_UNLCK ? std::nullopt : std::optional(lock.l_start);
}

// Waiting.

/// True as soon as `ready` says so, which is asked again at each ring of the bell for one of
/// `bits`.
template <class Ready>
bool Sidecar::wait_for(Bell bell, std::uint32_t bits, TimePoint until, Ready ready) {
  const Duration nap_max = bell == Bell::kTurn ? kTurnNapMax : kNewsNapMax;
  BellWord& word = page_->bell(bell);
  // Counted, then looked at, then asked: who makes it ready after that sees the waiter, or the
  // waiter sees that the bell has rung.
  const CountedWaiter counted(word);
  while (true) {
    const std::uint32_t rings = Shared32(word.rings).load();
    if (interrupted_.load()) {
      return false;
    }
    if (ready()) {
      return true;
    }
    const Duration nap = nap_length(until, nap_max);
    if (nap == Duration::zero()) {
      return false;
    }
    futex_wait(word.rings, rings, nap, bits);
  }
}

void Sidecar::interrupt() noexcept {
  interrupted_.store(true);
  // Whatever the count of waiters says: it may be damaged, and this is for certain.
  for (BellWord& word : page_->bells) {
    Shared32(word.rings).fetch_add(1);
    futex_wake_all(word.rings, kAllBits);
  }
}

// The turn.

/// A place in line, given up when the wait for the turn ended, however it did.
class Sidecar::PlaceInLine {
 public:
  explicit PlaceInLine(Sidecar& sidecar)
      : sidecar_(sidecar),
        at_(at(Shared64(sidecar.page_->counters.last_place).fetch_add(1))),
        taken_(sidecar.try_lock(Bytes::place(at_), F_WRLCK)) {}
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;
  ~PlaceInLine() {
    if (taken_) {
      sidecar_.unlock(Bytes::place(at_));
    }
    if (!sidecar_.has_turn_) {
      sidecar_.call_next();  // It may have been called itself.
    }
  }

  [[nodiscard]] bool is_first() {
    // Somebody else has it only if numbers are damaged, or a stranger locks the file.
    taken_ = taken_ || sidecar_.try_lock(Bytes::place(at_), F_WRLCK);
    return taken_ && !sidecar_.held_by_other(Bytes::before(at_));
  }
  [[nodiscard]] std::uint32_t bit() const noexcept { return bit_of(at_); }

  [[nodiscard]] static std::uint32_t bit_of(off_t place) noexcept {
    return std::uint32_t{1} << (static_cast<std::uint64_t>(place) % 32);
  }

 private:
  [[nodiscard]] static off_t at(std::uint64_t number) noexcept {
    return Bytes::kLine + 1 + static_cast<off_t>(number % Bytes::kPlaces);
  }

  Sidecar& sidecar_;
  off_t at_;
  bool taken_;
};

bool Sidecar::take_turn(TimePoint until) {
  HOLDFAST_CHECK(!has_turn_, "one turn at a time");
  if (interrupted_.load()) {
    return false;
  }
  // With nobody in line nobody is overtaken; one who comes between the two calls was not there yet.
  if (!held_by_other(Bytes::line()) && try_lock(Bytes::turn(), F_WRLCK)) {
    has_turn_ = true;
    return true;
  }
  PlaceInLine place(*this);
  has_turn_ = wait_for(Bell::kTurn, place.bit(), until,
                       [&] { return place.is_first() && try_lock(Bytes::turn(), F_WRLCK); });
  return has_turn_;
}

void Sidecar::end_turn() noexcept {
  HOLDFAST_CHECK(has_turn_, "only a turn that was taken can end");
  has_turn_ = false;
  unlock(Bytes::turn());
  call_next();
}

bool Sidecar::is_settled() const noexcept {
  return Shared32(page_->counters.unsettled).load() == 0;
}

void Sidecar::set_settled(bool settled) noexcept {
  HOLDFAST_CHECK(has_turn_, "only in a turn is it known how things stand");
  Shared32(page_->counters.unsettled).store(settled ? 0 : 1);
}

bool Sidecar::alone() const noexcept { return !held_by_other(Bytes::attached()); }

bool Sidecar::turn_wanted() noexcept { return held_by_other(Bytes::line()).has_value(); }

/// Wakes the first in line only: the others would go back to sleep, at some cost for all.
void Sidecar::call_next() noexcept {
  BellWord& word = page_->bell(Bell::kTurn);
  Shared32(word.rings).fetch_add(1);
  if (Shared32(word.waiters).load() == 0) {
    return;
  }
  std::uint32_t bits = kAllBits;
  // The kernel names any one in line, so ask for one before that one, until there is none.
  auto found = held_by_other(Bytes::line());
  while (found && *found > Bytes::kLine) {
    bits = PlaceInLine::bit_of(*found);
    found = held_by_other(Bytes::before(*found));
  }
  futex_wake_all(word.rings, bits);
}

// The news.

void Sidecar::publish(std::span<const std::string_view> keys) noexcept {
  HOLDFAST_CHECK(has_turn_, "news are published during a turn");
  // One who attaches after this look misses nothing, though it finds nothing in the ring: it reads
  // the store after it attached, so after the commit that this is about.
  if (keys.empty() || alone()) {
    return;
  }
  news_.write(id_, keys);
  BellWord& word = page_->bell(Bell::kNews);
  Shared32(word.rings).fetch_add(1);
  if (Shared32(word.waiters).load() != 0) {
    futex_wake_all(word.rings, kAllBits);
  }
}

std::optional<Neighbours::News> Sidecar::wait_for_news(TimePoint until) {
  std::optional<News> news;
  const bool found = wait_for(Bell::kNews, kAllBits, until, [&] {
    news = news_.read(position_, id_);
    return news.has_value();
  });
  return found ? std::move(news) : std::nullopt;
}

// The mark and the ballast.

std::uint64_t Sidecar::durable_mark() const noexcept { return page_->mark(); }

void Sidecar::set_durable_mark(std::uint64_t version) noexcept {
  HOLDFAST_CHECK(has_turn_, "the mark is set during a turn");
  page_->set_mark(version);
}

void Sidecar::keep_ballast() noexcept {
  // Without it everything works as long as the disk has space.
  static_cast<void>(allocate_blocks(file_.fd(), kMappedBytes, kBallastBytes));
}

void Sidecar::drop_ballast() noexcept {
  // A failure leaves the disk as full as it was, which whoever needs space will notice.
  [[maybe_unused]] const int result = ::ftruncate(file_.fd(), static_cast<off_t>(kMappedBytes));
}

}  // namespace holdfast::detail
