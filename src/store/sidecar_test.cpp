// SPDX-License-Identifier: Apache-2.0
#include "store/sidecar.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/store_error.hpp>

#include "base/temp_folder.hpp"

namespace holdfast::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using News = Neighbours::News;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMappedBytes = kPageBytes + NewsRing::kBytes;
constexpr std::size_t kBallastBytes = std::size_t{256} * 1024;
constexpr Duration kPatience = 60s;

TimePoint soon() { return MonotonicTime::now() + kPatience; }

/// A folder of its own for each test.
class SidecarTest : public ::testing::Test {
 protected:
  testing::TempFolder own_;
  const std::filesystem::path folder_ = own_.path();
  std::filesystem::path path_ = folder_ / "state.db-hold";
};

/// Zeros that forked children share.
template <class T>
class Shared {
 public:
  Shared()
      : value_(new(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0)) T{}) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(value_, sizeof(T)); }
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

/// Lets one process wait until another got somewhere.
class Signal {
 public:
  Signal() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  /// Closes all descriptors that were opened after both.
  void close_all_after_this_and(const Signal& other) const {
    const auto last = static_cast<unsigned>(std::max(ends_[1], other.ends_[1]));
    ::close_range(last + 1, ~0U, 0);
  }
  void give() const { EXPECT_EQ(::write(ends_[1], "!", 1), 1); }
  [[nodiscard]] bool await() const {
    pollfd entry{.fd = ends_[0], .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&entry, 1, static_cast<int>(kPatience / 1ms)) == 1 &&
           ::read(ends_[0], &byte, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

/// A process that runs one function, and ends with what it returns. Fork it before this process
/// opens a sidecar: it would share the locks.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      bool good = false;
      try {
        good = body();
      } catch (const std::exception& error) {
        ::dprintf(STDERR_FILENO, "child: %s\n", error.what());
      }
      ::_exit(good ? 0 : 1);
    }
    pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill();
    }
    ::close(pidfd_);
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    static_cast<void>(succeeds());
  }
  [[nodiscard]] bool succeeds() {
    pollfd entry{.fd = pidfd_, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(kPatience / 1ms)) != 1) {
      return false;
    }
    int status = 0;
    const bool reaped = ::waitpid(pid_, &status, 0) == pid_;
    pid_ = -1;
    return reaped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
  int pidfd_ = -1;
};

void sleep_for_ever() {
  while (true) {
    ::pause();
  }
}

/// Publishes in a turn of its own.
void tell(Sidecar& sidecar, const std::vector<std::string_view>& keys) {
  ASSERT_TRUE(sidecar.take_turn(soon()));
  sidecar.publish(keys);
  sidecar.end_turn();
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

/// Overwrites a part of the file in place.
void patch(const std::filesystem::path& path, std::size_t offset, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

/// How many wait, as the file says.
constexpr std::streamoff kTurnWaiters = 68;
constexpr std::streamoff kNewsWaiters = 132;
std::uint32_t waiter_count(const std::filesystem::path& path, std::streamoff offset) {
  std::uint32_t count = 0;
  std::ifstream file(path, std::ios::binary);
  file.seekg(offset).read(reinterpret_cast<char*>(&count), sizeof count);
  return count;
}

template <class E>
std::string refusal(const std::filesystem::path& path) {
  try {
    const Sidecar sidecar(path);
  } catch (const E& error) {
    return error.what();
  }
  return "not refused";
}

// Opening.

TEST_F(SidecarTest, IsCreatedForItsOwnerOnly) {
  const Sidecar sidecar(path_);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(info.st_size, static_cast<off_t>(kMappedBytes));
  EXPECT_GE(info.st_blocks * 512, static_cast<off_t>(kMappedBytes)) << "a full disk would be fatal";
}

TEST_F(SidecarTest, AFileOfAnotherKindIsRefusedAndLeftAsItIs) {
  std::string late(100, '\0');
  late += "not empty";
  const std::vector<std::string> others = {"x", "SQLite format 3", std::string(1'000'000, '\0'),
                                           std::string(kMappedBytes, 'h'), late};
  for (const std::string& bytes : others) {
    write_file(path_, bytes);
    EXPECT_THAT(refusal<NotAStore>(path_), HasSubstr(path_.string()));
    EXPECT_EQ(content(path_), bytes);
  }
}

TEST_F(SidecarTest, ANewerLayoutIsRefusedAndLeftAsItIs) {
  {
    const Sidecar sidecar(path_);
  }
  patch(path_, 8, std::string_view("\2\0\0\0", 4));
  const std::string before = content(path_);
  EXPECT_THAT(refusal<NewerFormat>(path_), HasSubstr("layout 2"));
  EXPECT_EQ(content(path_), before);
}

TEST_F(SidecarTest, AFileThatLostItsBytesWithThePowerIsMadeAnew) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{5000}, kMappedBytes}) {
    write_file(path_, std::string(size, '\0'));
    Sidecar sidecar(path_);
    EXPECT_TRUE(sidecar.take_turn(soon()));
  }
}

TEST_F(SidecarTest, PathsThatCannotBeUsedAreRefusedWithTheReason) {
  EXPECT_THAT(refusal<InvalidArgument>(folder_ / "none" / "x"), HasSubstr("No such file"));
  EXPECT_THAT(refusal<InvalidArgument>(folder_), HasSubstr("directory"));
  std::filesystem::create_symlink(folder_ / "elsewhere", path_);
  EXPECT_THAT(refusal<InvalidArgument>(path_), HasSubstr("symbolic link"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal<NotAStore>(folder_ / "fifo"), HasSubstr("move it away"));
}

TEST_F(SidecarTest, AFileThatOthersMayWriteIsRefused) {
  {
    const Sidecar sidecar(path_);
  }
  for (const mode_t mode : {0620U, 0602U, 0666U}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(refusal<InvalidArgument>(path_), HasSubstr("chmod 600"));
  }
}

TEST_F(SidecarTest, AFullDiskIsSaidToBeFull) {
  // The disk is a tiny one in a namespace of the child's own.
  Shared<std::atomic<bool>> mounted;
  Child child([&] {
    const int own = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
    if (::unshare(own) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=128k") != 0) {
      return true;
    }
    mounted->store(true);
    return refusal<StoreFull>(path_).find("free some space") != std::string::npos;
  });
  EXPECT_TRUE(child.succeeds());
  if (!mounted->load()) {
    GTEST_SKIP() << "no right to mount a small disk";
  }
}

TEST_F(SidecarTest, ManyProcessesOpenANewFileAtOnce) {
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove(path_);
    std::list<Child> children;
    for (int i = 0; i < 4; ++i) {
      children.emplace_back([&] {
        Sidecar sidecar(path_);
        const bool taken = sidecar.take_turn(soon());
        sidecar.set_durable_mark(sidecar.durable_mark() + 1);
        sidecar.end_turn();
        return taken;
      });
    }
    for (Child& child : children) {
      ASSERT_TRUE(child.succeeds());
    }
    EXPECT_EQ(Sidecar(path_).durable_mark(), 4U);
  }
}

TEST_F(SidecarTest, AFileThatWasShortenedInUseIsRefused) {
  const Sidecar sidecar(path_);
  ASSERT_EQ(::truncate(path_.c_str(), kPageBytes), 0);
  EXPECT_THAT(refusal<StoreBusy>(path_), HasSubstr("shortened"));
}

// The turn.

TEST_F(SidecarTest, ProcessesTakeTurnsOneAtATime) {
  constexpr int kProcesses = 4;
  constexpr int kTurns = 5'000;
  struct State {
    std::atomic<int> ready;
    int count;  // Not atomic: the turn is what keeps it right.
  };
  Shared<State> state;
  std::list<Child> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.emplace_back([&] {
      Sidecar sidecar(path_);
      for (++state->ready; state->ready.load() < kProcesses;) {
        ::sched_yield();
      }
      for (int turn = 0; turn < kTurns; ++turn) {
        if (!sidecar.take_turn(soon())) {
          return false;
        }
        volatile int& shared = state->count;
        const int seen = shared;
        if (turn % 4 == 0) {
          ::sched_yield();  // Others find the turn taken.
        }
        shared = seen + 1;
        sidecar.end_turn();
      }
      return true;
    });
  }
  for (Child& child : children) {
    EXPECT_TRUE(child.succeeds());
  }
  EXPECT_EQ(state->count, kProcesses * kTurns);
}

TEST_F(SidecarTest, TwoObjectsOfOneProcessExcludeEachOther) {
  Sidecar one(path_);
  Sidecar two(path_);
  ASSERT_TRUE(one.take_turn(soon()));
  EXPECT_FALSE(two.take_turn(MonotonicTime::now()));
  EXPECT_FALSE(two.take_turn(TimePoint::min()));
  one.end_turn();
  EXPECT_TRUE(two.take_turn(TimePoint::min())) << "a free turn takes no time";
}

TEST_F(SidecarTest, AKilledHolderHasNoTurn) {
  Signal holds;
  Child holder([&] {
    Sidecar sidecar(path_);
    EXPECT_TRUE(sidecar.take_turn(soon()));
    holds.give();
    sleep_for_ever();
    return true;
  });
  ASSERT_TRUE(holds.await());
  Sidecar sidecar(path_);
  EXPECT_FALSE(sidecar.take_turn(MonotonicTime::now()));
  holder.kill();
  EXPECT_TRUE(sidecar.take_turn(soon()));
}

TEST_F(SidecarTest, AForkedChildThatClosedItsDescriptorsDoesNotKeepTheTurn) {
  Signal forked;
  Signal end;
  Child holder([&] {
    Sidecar sidecar(path_);
    EXPECT_TRUE(sidecar.take_turn(soon()));
    if (::fork() == 0) {
      forked.close_all_after_this_and(end);
      forked.give();
      ::_exit(end.await() ? 0 : 1);
    }
    sleep_for_ever();
    return true;
  });
  ASSERT_TRUE(forked.await());
  Sidecar sidecar(path_);
  EXPECT_FALSE(sidecar.take_turn(MonotonicTime::now()));
  holder.kill();
  EXPECT_TRUE(sidecar.take_turn(soon()));
  end.give();
}

TEST_F(SidecarTest, AClosedHolderHasNoTurn) {
  auto holder = std::make_unique<Sidecar>(path_);
  Sidecar waiter(path_);
  ASSERT_TRUE(holder->take_turn(soon()));
  std::thread waiting([&] { EXPECT_TRUE(waiter.take_turn(TimePoint::max())); });
  while (!holder->turn_wanted()) {
    std::this_thread::yield();
  }
  holder.reset();
  waiting.join();
}

TEST_F(SidecarTest, AKilledWaiterDoesNotBlockTheLine) {
  Signal go;
  Child waiter([&] {
    EXPECT_TRUE(go.await());
    Sidecar sidecar(path_);
    return sidecar.take_turn(TimePoint::max());
  });
  Sidecar holder(path_);
  Sidecar other(path_);
  ASSERT_TRUE(holder.take_turn(soon()));
  EXPECT_FALSE(holder.turn_wanted());
  go.give();
  while (!holder.turn_wanted()) {
    std::this_thread::yield();
  }
  waiter.kill();
  EXPECT_FALSE(holder.turn_wanted());
  holder.end_turn();
  EXPECT_TRUE(other.take_turn(soon()));
}

TEST_F(SidecarTest, WhoeverWaitsIsServedBeforeOneWhoWantsTheTurnAgain) {
  struct State {
    std::atomic<bool> done;
    std::atomic<bool> seen_waiting;
    std::atomic<int> overtaken;
  };
  Shared<State> state;
  Child greedy([&] {
    Sidecar sidecar(path_);
    while (!state->done.load()) {
      if (!sidecar.take_turn(soon())) {
        return false;
      }
      state->overtaken += state->seen_waiting.load() ? 1 : 0;
      while (!sidecar.turn_wanted() && !state->done.load()) {
        ::sched_yield();
      }
      state->seen_waiting.store(true);
      sidecar.end_turn();
    }
    return true;
  });
  Sidecar sidecar(path_);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(sidecar.take_turn(soon()));
    state->seen_waiting.store(false);
    sidecar.end_turn();
  }
  state->done.store(true);
  EXPECT_TRUE(greedy.succeeds());
  EXPECT_EQ(state->overtaken.load(), 0);
}

TEST_F(SidecarTest, TheLineIsServedInOrder) {
  constexpr std::size_t kWaiters = 5;
  Sidecar holder(path_);
  std::list<Sidecar> waiters;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    waiters.emplace_back(path_);
  }
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(holder.take_turn(soon()));
    std::vector<std::size_t> served;  // Guarded by the turn, but ThreadSanitizer cannot know.
    std::mutex mutex;
    const auto serve = [&](Sidecar& sidecar, std::size_t number) {
      ASSERT_TRUE(sidecar.take_turn(soon()));
      const std::lock_guard guard(mutex);
      served.push_back(number);
      sidecar.end_turn();
    };
    std::vector<std::thread> threads;
    for (Sidecar& waiter : waiters) {
      threads.emplace_back(serve, std::ref(waiter), threads.size());
      while (waiter_count(path_, kTurnWaiters) < threads.size()) {
        std::this_thread::yield();
      }
    }
    holder.end_turn();
    serve(holder, kWaiters);
    for (std::thread& thread : threads) {
      thread.join();
    }
    ASSERT_THAT(served, ElementsAre(0, 1, 2, 3, 4, kWaiters));
  }
}

TEST_F(SidecarTest, AWaitForTheTurnEndsAtItsDeadline) {
  Sidecar holder(path_);
  Sidecar waiter(path_);
  ASSERT_TRUE(holder.take_turn(soon()));
  const TimePoint until = MonotonicTime::now() + 30ms;
  EXPECT_FALSE(waiter.take_turn(until));
  EXPECT_GE(MonotonicTime::now(), until);
  EXPECT_FALSE(holder.turn_wanted()) << "it has left the line";
  holder.end_turn();
  EXPECT_TRUE(waiter.take_turn(soon()));
}

TEST_F(SidecarTest, InterruptEndsWaitsForTheTurnAndThoseToCome) {
  Sidecar holder(path_);
  Sidecar first(path_);
  Sidecar second(path_);
  ASSERT_TRUE(holder.take_turn(soon()));
  std::thread next([&] { EXPECT_FALSE(first.take_turn(TimePoint::max())); });
  std::thread behind([&] { EXPECT_FALSE(second.take_turn(TimePoint::max())); });
  while (!holder.turn_wanted()) {
    std::this_thread::yield();
  }
  first.interrupt();
  second.interrupt();
  next.join();
  behind.join();
  EXPECT_FALSE(holder.turn_wanted());
  holder.end_turn();
  EXPECT_FALSE(first.take_turn(TimePoint::max())) << "interrupted for good";
  EXPECT_TRUE(holder.take_turn(soon())) << "the others are not";
}

TEST_F(SidecarTest, LocksOfAStrangerDelayTheTurnButNotItsDeadline) {
  Sidecar sidecar(path_);
  const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  struct flock all{};
  all.l_type = F_WRLCK;
  all.l_start = 3;  // From there on, without an end.
  ASSERT_EQ(::fcntl(fd, F_OFD_SETLK, &all), 0);
  EXPECT_FALSE(sidecar.take_turn(MonotonicTime::now() + 1ms));
  ::close(fd);
  EXPECT_TRUE(sidecar.take_turn(soon()));
}

// The news.

TEST_F(SidecarTest, NewsReachAnotherProcess) {
  Signal opened;
  Child reader([&] {
    Sidecar sidecar(path_);
    opened.give();
    const auto news = sidecar.wait_for_news(TimePoint::max());
    return news && !news->anything && news->keys == std::vector<std::string>{"a", "", "key"};
  });
  Sidecar writer(path_);
  ASSERT_TRUE(opened.await());
  tell(writer, {"a", "", "key"});
  EXPECT_TRUE(reader.succeeds());
}

TEST_F(SidecarTest, OwnNewsAreNotReportedToOneself) {
  Sidecar one(path_);
  Sidecar two(path_);
  tell(one, {"of one"});
  tell(two, {"of two"});
  tell(one, {"of one"});
  EXPECT_THAT(one.wait_for_news(soon())->keys, ElementsAre("of two"));
  EXPECT_EQ(one.wait_for_news(MonotonicTime::now()), std::nullopt);
  EXPECT_THAT(two.wait_for_news(TimePoint::min())->keys, ElementsAre("of one", "of one"));
}

TEST_F(SidecarTest, NewsFromBeforeItWasOpenedAreNotReported) {
  Sidecar one(path_);
  tell(one, {"nobody listens"});
  Sidecar two(path_);
  tell(one, {"two listens"});
  Sidecar three(path_);
  EXPECT_EQ(three.wait_for_news(MonotonicTime::now()), std::nullopt);
  EXPECT_THAT(two.wait_for_news(soon())->keys, ElementsAre("two listens"));
}

TEST_F(SidecarTest, TooMuchForTheRingIsReportedAsAnything) {
  Sidecar writer(path_);
  Sidecar reader(path_);
  const std::string longest(NewsRing::kRecordBytesMax - 20, 'k');
  tell(writer, {longest});
  EXPECT_THAT(reader.wait_for_news(soon())->keys, ElementsAre(longest));
  const std::string longer = longest + "k";
  const std::vector<std::string_view> many(20'000, "");
  for (const auto& keys : {std::vector<std::string_view>{longer}, many}) {
    tell(writer, keys);
    const auto news = reader.wait_for_news(soon());
    EXPECT_TRUE(news->anything);
    EXPECT_TRUE(news->keys.empty());
  }
  tell(writer, {"short"});
  EXPECT_THAT(reader.wait_for_news(soon())->keys, ElementsAre("short"));
}

TEST_F(SidecarTest, AReaderThatIsLappedLearnsThatItMissedSomething) {
  Sidecar writer(path_);
  Sidecar reader(path_);
  const std::string key(1'000, 'k');
  for (std::size_t i = 0; i < NewsRing::kBytes / key.size(); ++i) {
    tell(writer, {key});
  }
  const auto news = reader.wait_for_news(soon());
  EXPECT_TRUE(news->anything);
  EXPECT_EQ(reader.wait_for_news(MonotonicTime::now()), std::nullopt);
  tell(writer, {"next"});
  EXPECT_THAT(reader.wait_for_news(soon())->keys, ElementsAre("next"));
}

/// What a reader has to see of the keys "0", "1", ...: each, or `anything` in the place of some.
struct Sequence {
  std::uint64_t next = 0;
  bool gap = false;

  [[nodiscard]] bool accepts(const News& news) {
    gap = gap || news.anything;
    for (const std::string& key : news.keys) {
      std::uint64_t number = 0;
      std::from_chars(key.data(), key.data() + key.size(), number);
      if (gap ? number < next : number != next) {
        return false;
      }
      next = number + 1;
      gap = news.anything;
    }
    return true;
  }
};

TEST_F(SidecarTest, NothingIsMissedUnnoticedByFastAndSlowReaders) {
  constexpr std::uint64_t kCount = 100'000;
  struct State {
    std::atomic<int> opened;
    std::atomic<std::uint64_t> published;
  };
  Shared<State> state;
  Signal all_opened;
  // A reader looks again when so many more were published: at once, before it is lapped, after.
  const auto reader = [&](std::uint64_t step) {
    return [&, step] {
      Sidecar sidecar(path_);
      if (state->opened.fetch_add(1) == 2) {
        all_opened.give();
      }
      Sequence seen;
      for (std::uint64_t at = 0; at < kCount;) {
        at = std::min(at + step, kCount);
        while (state->published.load() < at) {
          ::sched_yield();
        }
        while (const auto news = sidecar.wait_for_news(MonotonicTime::now())) {
          if (!seen.accepts(*news)) {
            return false;
          }
        }
      }
      return seen.gap || seen.next == kCount;
    };
  };
  Child fast(reader(1));
  Child slow(reader(5'000));
  Child slowest(reader(30'000));
  ASSERT_TRUE(all_opened.await());
  Sidecar writer(path_);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const std::string key = std::to_string(i);
    tell(writer, {key});
    state->published.store(i + 1);
  }
  EXPECT_TRUE(fast.succeeds());
  EXPECT_TRUE(slow.succeeds());
  EXPECT_TRUE(slowest.succeeds());
}

TEST_F(SidecarTest, AReaderIsWokenForEveryPieceOfNews) {
  constexpr int kCount = 2'000;
  Signal pong;
  Child reader([&] {
    Sidecar sidecar(path_);
    pong.give();
    for (int i = 0; i < kCount; ++i) {
      const auto news = sidecar.wait_for_news(TimePoint::max());
      if (!news || news->keys != std::vector{std::to_string(i)}) {
        return false;
      }
      pong.give();
    }
    return true;
  });
  Sidecar writer(path_);
  ASSERT_TRUE(pong.await());
  const TimePoint start = MonotonicTime::now();
  for (int i = 0; i < kCount; ++i) {
    const std::string key = std::to_string(i);
    tell(writer, {key});
    ASSERT_TRUE(pong.await());
  }
  EXPECT_TRUE(reader.succeeds());
  EXPECT_LT(MonotonicTime::now() - start, kCount * 100ms) << "it polled";
}

TEST_F(SidecarTest, OneThreadWritesWhileAnotherWaitsForNews) {
  constexpr std::uint64_t kCount = 5'000;
  Sidecar one(path_);
  Sidecar two(path_);
  const auto listen = [](Sidecar& sidecar) {
    for (Sequence seen; seen.next < kCount && !seen.gap;) {
      const auto news = sidecar.wait_for_news(TimePoint::max());
      ASSERT_TRUE(news && seen.accepts(*news));
    }
  };
  const auto speak = [](Sidecar& sidecar) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::string key = std::to_string(i);
      tell(sidecar, {key});
    }
  };
  std::vector<std::thread> threads;
  for (Sidecar* sidecar : {&one, &two}) {
    threads.emplace_back(listen, std::ref(*sidecar));
    threads.emplace_back(speak, std::ref(*sidecar));
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(SidecarTest, InterruptEndsWaitsForNewsAndThoseToCome) {
  constexpr int kRounds = 20;
  const TimePoint start = MonotonicTime::now();
  for (int round = 0; round < kRounds; ++round) {
    Sidecar sidecar(path_);
    std::thread waiting([&] { EXPECT_EQ(sidecar.wait_for_news(TimePoint::max()), std::nullopt); });
    while (waiter_count(path_, kNewsWaiters) == 0) {
      std::this_thread::yield();
    }
    sidecar.interrupt();
    waiting.join();
    EXPECT_EQ(sidecar.wait_for_news(TimePoint::max()), std::nullopt);
  }
  EXPECT_LT(MonotonicTime::now() - start, kRounds * 250ms) << "it polled";
}

// Damage.

TEST_F(SidecarTest, GarbageInTheFileNeitherCrashesNorHangsItsUsers) {
  Signal opened;
  Shared<std::atomic<bool>> done;
  Child user([&] {
    Sidecar sidecar(path_);
    std::thread reader([&] {
      while (sidecar.wait_for_news(TimePoint::max())) {
      }
    });
    opened.give();
    while (!done->load()) {
      if (sidecar.take_turn(soon())) {
        sidecar.publish(std::array<std::string_view, 2>{"one", "two"});
        sidecar.set_durable_mark(sidecar.durable_mark() + 1);
        sidecar.end_turn();
      }
    }
    sidecar.interrupt();
    reader.join();
    return true;
  });
  Sidecar other(path_);
  ASSERT_TRUE(opened.await());
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    std::string garbage(1 + random() % 64, '\0');
    std::generate(garbage.begin(), garbage.end(), [&] { return static_cast<char>(random()); });
    // Mostly where the counters are: the first 512 bytes.
    const std::size_t end = i % 4 == 0 ? kMappedBytes : 512;
    patch(path_, random() % (end - garbage.size()), garbage);
    static_cast<void>(other.wait_for_news(MonotonicTime::now()));
    static_cast<void>(other.durable_mark());
  }
  done->store(true);
  EXPECT_TRUE(user.succeeds());
}

TEST(NewsRing, AnyBytesAreReadWithinBounds) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(NewsRing::kWords);
  NewsRing::Positions positions{};
  const NewsRing ring(positions, NewsRing::Words(words));
  for (int i = 0; i < 20'000; ++i) {
    // Small numbers pass the checks of lengths more often than large ones.
    for (std::size_t word = 0; word < 64; ++word) {
      words[word] = random() & (random() % 2 == 0 ? 0x0000'0003'0000'0078U : ~std::uint64_t{0});
    }
    positions.head = random() % 600;
    positions.reserved = positions.head;
    std::uint64_t position = 0;
    static_cast<void>(ring.read(position, 1));
    EXPECT_EQ(position, positions.head / 8 * 8);
  }
}

TEST(NewsRing, AWriterThatDiedInTheMiddleIsNoticedByTheReaderItOverwrote) {
  std::vector<std::uint64_t> words(NewsRing::kWords);
  NewsRing::Positions positions{};
  NewsRing ring(positions, NewsRing::Words(words));
  std::uint64_t position = ring.head();
  const std::string key(NewsRing::kRecordBytesMax - 20, 'k');
  for (int i = 0; i < 3; ++i) {
    ring.write(1, std::array<std::string_view, 1>{key});
  }
  ring.write(1, std::array<std::string_view, 1>{std::string_view(key).substr(64)});
  // The fifth would have overwritten most of the first: it was reserved, and begun.
  positions.reserved = positions.head + NewsRing::kRecordBytesMax;
  words[100] = ~std::uint64_t{0};
  std::uint64_t same = position;
  EXPECT_TRUE(ring.read(same, 2)->anything);
  ring.write(1, std::array<std::string_view, 1>{"a"});
  EXPECT_TRUE(ring.read(position, 2)->anything) << "a short record hides nothing of it";
  ring.write(1, std::array<std::string_view, 1>{"b"});
  EXPECT_THAT(ring.read(position, 2)->keys, ElementsAre("b"));
}

TEST_F(SidecarTest, TheFirstToOpenTidiesUp) {
  {
    Sidecar sidecar(path_);
    ASSERT_TRUE(sidecar.take_turn(soon()));
    sidecar.set_durable_mark(42);
  }
  // All but the magic, the layout and the marks.
  patch(path_, 48, std::string(kMappedBytes - 48, '\xa5'));
  Sidecar one(path_);
  EXPECT_EQ(content(path_).substr(64, 2 * 64 + 16), std::string(2 * 64 + 16, '\0'));
  EXPECT_EQ(one.durable_mark(), 42U);
  patch(path_, 48, std::string(16, '\xa5'));
  Sidecar two(path_);
  EXPECT_EQ(content(path_).substr(48, 16), std::string(16, '\xa5')) << "the second does not";
  tell(one, {"key"});
  EXPECT_THAT(two.wait_for_news(soon())->keys, ElementsAre("key"));
}

// The mark.

TEST_F(SidecarTest, TheMarkOutlivesItsProcesses) {
  {
    Sidecar sidecar(path_);
    EXPECT_EQ(sidecar.durable_mark(), 0U);
    ASSERT_TRUE(sidecar.take_turn(soon()));
    sidecar.set_durable_mark(~std::uint64_t{0});
    sidecar.set_durable_mark(7);
    EXPECT_EQ(sidecar.durable_mark(), 7U);
    EXPECT_EQ(Sidecar(path_).durable_mark(), 7U);
  }
  EXPECT_EQ(Sidecar(path_).durable_mark(), 7U);
}

TEST_F(SidecarTest, ADamagedMarkIsNone) {
  const auto damaged = [&](std::initializer_list<std::size_t> offsets) {
    {
      Sidecar sidecar(path_);
      EXPECT_TRUE(sidecar.take_turn(soon()));
      sidecar.set_durable_mark(7);
    }
    for (const std::size_t offset : offsets) {
      patch(path_, offset, "x");
    }
    return Sidecar(path_).durable_mark();
  };
  EXPECT_EQ(damaged({16}), 7U) << "there are two";
  EXPECT_EQ(damaged({24}), 7U);
  EXPECT_EQ(damaged({32}), 7U);
  EXPECT_EQ(damaged({16, 32}), 0U);
  EXPECT_EQ(damaged({16, 40}), 0U);
  EXPECT_EQ(damaged({31, 39}), 0U);
}

// The ballast.

TEST_F(SidecarTest, BallastGrowsAndShrinksTheFile) {
  Sidecar sidecar(path_);
  struct stat info{};
  for (int i = 0; i < 2; ++i) {
    sidecar.keep_ballast();
    sidecar.keep_ballast();
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_GE(info.st_size, static_cast<off_t>(kMappedBytes + kBallastBytes));
    EXPECT_GE(info.st_blocks * 512, static_cast<off_t>(kMappedBytes + kBallastBytes));
    EXPECT_TRUE(Sidecar(path_).take_turn(soon()));
    sidecar.drop_ballast();
    sidecar.drop_ballast();
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_size, static_cast<off_t>(kMappedBytes));
  }
}

}  // namespace
}  // namespace holdfast::detail
