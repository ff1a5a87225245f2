// SPDX-License-Identifier: Apache-2.0
// Sessions of real processes that are stopped and killed, in real time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <holdfast/all_any.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTtl = 1s;
constexpr auto kPatience = 50s;
constexpr unsigned kLifetimeSecondsMax = 100;

void check(bool ok, const char* what) {
  if (!ok) {
    throw std::system_error(errno, std::generic_category(), what);
  }
}

template <typename Done>
void wait_until(const Done& done) {
  const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up_at) {
      throw std::runtime_error("out of patience");
    }
    std::this_thread::sleep_for(1ms);
  }
}

void say(int to, std::string line) {
  line.push_back('\n');
  check(::write(to, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "write");
}

/// A process that opens a session, says its id, and goes on until it is lost: then it says why, and
/// what became of a write of its own.
void live(const std::filesystem::path& path, int to_parent) {
  const std::unique_ptr<Store> store = open_sqlite_store(path);
  ThreadPool pool(1);
  const auto session = sync_wait(pool, Session::open(*store, {.ttl = kTtl, .name = "child"}));
  std::binary_semaphore lost(0);
  const std::stop_callback wake(session->lost_token(), [&] { lost.release(); });
  say(to_parent, session->id());
  check(lost.try_acquire_for(kPatience), "the session was not lost");
  Batch guarded;
  guarded.guard(session->key(), session->version()).put("effect", "of a dead process");
  const CommitOutcome outcome = sync_wait(pool, store->commit(std::move(guarded)));
  say(to_parent, outcome.fenced() != nullptr ? "fenced" : "written");
  // The store is asked once more, for the reason.
  wait_until([&] { return session->loss() == SessionLoss::kDeposed; });
  try {
    session->check_alive();
    say(to_parent, "alive");
  } catch (const SessionLost& error) {
    say(to_parent, error.what());
  }
}

class Child {
 public:
  explicit Child(const std::filesystem::path& path) {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
    pid_ = ::fork();  // No thread of this process runs now.
    check(pid_ >= 0, "fork");
    if (pid_ == 0) {
      ::alarm(kLifetimeSecondsMax);
      ::setsid();  // The kernel may hang up on a whole group in which one is stopped.
      try {
        live(path, ends[1]);
        ::_exit(EXIT_SUCCESS);
      } catch (const std::exception& error) {
        say(ends[1], error.what());
        ::_exit(EXIT_FAILURE);
      }
    }
    ::close(ends[1]);
    from_child_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::close(from_child_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { check(::kill(pid_, number) == 0, "kill"); }
  void until_stopped() const {
    int status = 0;
    check(::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status), "waitpid");
  }
  std::string line() const {
    std::string line;
    for (char next = 0; next != '\n'; line.push_back(next)) {
      pollfd waiting{from_child_, POLLIN, 0};
      const auto patience = std::chrono::milliseconds(kPatience).count();
      check(::poll(&waiting, 1, static_cast<int>(patience)) == 1, "out of patience with a child");
      check(::read(from_child_, &next, 1) == 1, "a child ended without an answer");
    }
    line.pop_back();
    return line;
  }

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
};

class SessionProcesses : public ::testing::Test {
 protected:
  /// A process next to the child, which comes first: who forks must have no threads.
  struct Observer {
    explicit Observer(const std::filesystem::path& path) : store(open_sqlite_store(path)) {}
    std::size_t bury() { return sync_wait(pool, bury_expired(*store)); }
    std::vector<SessionInfo> list() { return sync_wait(pool, list_sessions(*store)); }
    /// Behind whoever writes at present.
    void have_the_turn() {
      Batch batch;
      batch.put("turn", "of the observer");
      const CommitOutcome outcome = sync_wait(pool, store->commit(std::move(batch)));
      EXPECT_NE(outcome.committed(), nullptr);
    }
    std::unique_ptr<Store> store;
    ThreadPool pool{2};
  };

  testing::TempFolder folder_;
  std::filesystem::path path_ = folder_ / "store";
};

TEST_F(SessionProcesses, OneThatWasStoppedPastItsTtlIsBuriedAndCanWriteNothing) {
  const Child child(path_);
  const std::string id = child.line();
  Observer observer(path_);
  const StoreTime first = observer.list().at(0).expires;
  wait_until([&] { return observer.list().at(0).expires != first; });
  observer.have_the_turn();  // So that the child is not stopped in its own.
  child.signal(SIGSTOP);
  child.until_stopped();
  const StoreTime expires = observer.list().at(0).expires;
  wait_until([&] { return observer.bury() == 1; });
  EXPECT_GE(sync_wait(observer.pool, observer.store->time()), expires);
  child.signal(SIGCONT);
  EXPECT_EQ(child.line(), "fenced");
  EXPECT_EQ(child.line(), "the session 'child' (" + id +
                              ") is over: its row in the store is gone: it was declared dead");
  EXPECT_TRUE(observer.list().empty());
  EXPECT_FALSE(sync_wait(observer.pool, observer.store->get("effect")));
}

TEST_F(SessionProcesses, OneThatWasKilledExpiresAndIsBuriedOnce) {
  const Child child(path_);
  const std::string id = child.line();
  child.signal(SIGKILL);
  Observer observer(path_);
  const std::unique_ptr<Store> other = open_sqlite_store(path_);
  EXPECT_EQ(observer.list().at(0).id, id);
  const StoreTime expires = observer.list().at(0).expires;
  std::size_t buried = 0;
  wait_until([&] {
    const auto [here, there] =
        sync_wait(observer.pool, all(bury_expired(*observer.store), bury_expired(*other)));
    buried = here + there;
    return buried > 0;
  });
  EXPECT_EQ(buried, 1U);
  EXPECT_GE(sync_wait(observer.pool, observer.store->time()), expires);
  EXPECT_TRUE(observer.list().empty());
}

}  // namespace
}  // namespace holdfast
