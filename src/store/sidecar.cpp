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

/// Beginning of the file. What comes before `layout` is for ever.
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
  return std::rotl((number ^ 0x6d61726b'686f6c64U) * 0x9ddfea08'eb382d69U, 29);
}

/// A word to sleep on, until somebody rings.
struct alignas(64) BellWord {
  std::uint32_t rings;
  std::uint32_t waiters;  ///< At least those alive: the killed are counted until the next reset.
};

struct alignas(64) Counters {
  NewsRing::Positions news;
  std::uint64_t last_id;
};

Duration nap_length(TimePoint until, Duration nap_max) noexcept {
  const TimePoint now = MonotonicTime::now();
  // Compared before subtracted: `until` may be as far away as numbers go.
  return until <= now ? Duration::zero() : std::min(until - now, nap_max);
}

// Not FUTEX_PRIVATE: the kernel knows a shared word by its place in the file.
void futex_wait(std::uint32_t& word, std::uint32_t seen, Duration at_most) noexcept {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (at_most - seconds).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void futex_wake_all(std::uint32_t& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
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

/// Bytes of the file to lock; what is in them does not matter.
enum class Sidecar::LockByte : std::uint8_t {
  kTurn,      ///< Held by who has the turn.
  kNext,      ///< Held by the one who waits for it; the others wait for this one.
  kAttached,  ///< Shared by all who have the file open; alone, by who resets it.
  kOpening,   ///< Held while opening, so that nobody attaches to a half-made file.
};

enum class Sidecar::Bell : std::uint8_t { kTurn, kNext, kNews };

/// The mapped part of the file.
struct Sidecar::Page {
  FileHead head;
  std::array<Mark, 2> marks;
  std::array<BellWord, 3> bells;
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
  const bool alone = try_lock(LockByte::kAttached, F_WRLCK);
  allocate();
  auto page = map();
  if (alone) {
    page->reset();
  }
  const bool attached = try_lock(LockByte::kAttached, F_RDLCK);
  HOLDFAST_CHECK(attached, "only who is opening may have the file alone");
  unlock(LockByte::kOpening);
  return page;
}

void Sidecar::wait_to_open() {
  const TimePoint until = MonotonicTime::now() + kOpenPatience;
  while (!try_lock(LockByte::kOpening, F_WRLCK)) {
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
void Sidecar::allocate() {
  struct stat info{};
  if (::fstat(file_.fd(), &info) != 0) {
    fail("cannot be examined", errno);
  }
  constexpr std::size_t kBlockBytes = 512;
  const bool complete = info.st_size >= static_cast<off_t>(kMappedBytes) &&
                        info.st_blocks >= static_cast<blkcnt_t>(kMappedBytes / kBlockBytes);
  if (complete) {
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

bool Sidecar::try_lock(LockByte byte, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
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

void Sidecar::unlock(LockByte byte) noexcept {
  struct flock lock{};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  const int result = ::fcntl(file_.fd(), F_OFD_SETLK, &lock);
  HOLDFAST_CHECK(result == 0, "one byte that is locked can be unlocked");
}

bool Sidecar::held_by_other(LockByte byte) const noexcept {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return ::fcntl(file_.fd(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// Waiting.

/// True as soon as `ready` says so, which is asked again at each ring of the bell.
template <class Ready>
bool Sidecar::wait_for(Bell bell, TimePoint until, Duration nap_max, Ready ready) {
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
    futex_wait(word.rings, rings, nap);
  }
}

void Sidecar::ring_bell(Bell bell) noexcept {
  BellWord& word = page_->bell(bell);
  Shared32(word.rings).fetch_add(1);
  if (Shared32(word.waiters).load() != 0) {
    futex_wake_all(word.rings);
  }
}

void Sidecar::interrupt() noexcept {
  interrupted_.store(true);
  // Unlike `ring_bell` whatever the count says: it may be damaged, and this is for certain.
  for (BellWord& word : page_->bells) {
    Shared32(word.rings).fetch_add(1);
    futex_wake_all(word.rings);
  }
}

// The turn.

/// Lets the next one in line move up, however the wait for the turn ended.
class Sidecar::PlaceInLine {
 public:
  explicit PlaceInLine(Sidecar& sidecar) noexcept : sidecar_(sidecar) {}
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;
  ~PlaceInLine() {
    sidecar_.unlock(LockByte::kNext);
    sidecar_.ring_bell(Bell::kNext);
  }

 private:
  Sidecar& sidecar_;
};

bool Sidecar::wait_to_lock(LockByte byte, Bell bell, TimePoint until) {
  return wait_for(bell, until, kTurnNapMax, [&] { return try_lock(byte, F_WRLCK); });
}

bool Sidecar::take_turn(TimePoint until) {
  HOLDFAST_CHECK(!has_turn_, "one turn at a time");
  if (interrupted_.load()) {
    return false;
  }
  // Who waits has the next byte, so nobody is overtaken here; one who comes between the two calls
  // was not there yet. Taking the next byte for a moment would do as well, for one call more.
  if (!held_by_other(LockByte::kNext) && try_lock(LockByte::kTurn, F_WRLCK)) {
    has_turn_ = true;
    return true;
  }
  if (!wait_to_lock(LockByte::kNext, Bell::kNext, until)) {
    return false;
  }
  const PlaceInLine place(*this);
  has_turn_ = wait_to_lock(LockByte::kTurn, Bell::kTurn, until);
  return has_turn_;
}

void Sidecar::end_turn() noexcept {
  HOLDFAST_CHECK(has_turn_, "only a turn that was taken can end");
  has_turn_ = false;
  unlock(LockByte::kTurn);
  ring_bell(Bell::kTurn);
}

bool Sidecar::turn_wanted() noexcept { return held_by_other(LockByte::kNext); }

// The news.

void Sidecar::publish(std::span<const std::string_view> keys) noexcept {
  HOLDFAST_CHECK(has_turn_, "news are published during a turn");
  // One who attaches after this look misses nothing, though it finds nothing in the ring: it reads
  // the store after it attached, so after the commit that this is about.
  if (keys.empty() || !held_by_other(LockByte::kAttached)) {
    return;
  }
  news_.write(id_, keys);
  ring_bell(Bell::kNews);
}

std::optional<Neighbours::News> Sidecar::wait_for_news(TimePoint until) {
  std::optional<News> news;
  const bool found = wait_for(Bell::kNews, until, kNewsNapMax, [&] {
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
