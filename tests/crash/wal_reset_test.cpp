// SPDX-License-Identifier: Apache-2.0
//
// The WAL-reset race of SQLite, played step by step.
//
// A passive checkpoint takes no writer lock. It copies the header of the WAL index, and only then
// compares the copy's frame count with the shared count of frames that are already in the
// database file. If all of them are, a writer that commits in between starts the WAL over and sets
// the shared count to zero. The checkpoint then takes the old frame count for work to do, finds
// just the few new frames, and publishes the old count as done. From then on that many frames of
// the new WAL pass for copied although they are not: readers skip them, checkpoints skip them, and
// the commits in them are gone once the WAL is.
//
// Between the two steps SQLite calls xUnfetch on the database file, if the header has changed since
// the connection last looked. That is where a VFS can stop the checkpoint: no luck is needed.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/temp_folder.hpp"
#include "tests/crash/pausing_vfs.hpp"

namespace holdfast {
namespace {

using testing::PausingVfs;
using testing::TempFolder;
using namespace std::chrono_literals;

constexpr auto kDeadline = 60s;  // Of each wait: reached only if the schedule went wrong.

// Commits before the pause, and from the pause on. The frames of the second round up to the length
// of the first are skipped and those after it are not. A short second round is therefore lost
// whole; a long one leaves pages of different ages in one tree.
constexpr int kFirstRoundCommits = 100;
constexpr int kShortRoundCommits = 60;
constexpr int kLongRoundCommits = 180;

/// The points of the schedule. Each is reached once, and stays reached.
enum class Point : std::uint8_t {
  kCheckpointPaused,    // The checkpointer has read the header, and nothing else.
  kCheckpointReleased,  // The paused checkpoint may go on.
  kCheckpointOver,      // It has returned or failed.
  kWriterWaiting,       // The writer found the lock taken.
  kWriterOver,          // The commit that is to meet the checkpoint has returned or failed.
  kCount
};

class Stage {
 public:
  void reach(Point point) {
    {
      const std::lock_guard guard(mutex_);
      reached_.at(static_cast<std::size_t>(point)) = true;
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool has_reached(Point point) const {
    const std::lock_guard guard(mutex_);
    return reached_.at(static_cast<std::size_t>(point));
  }

  /// False at the deadline.
  [[nodiscard]] bool wait_for_any(std::initializer_list<Point> points) const {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, kDeadline, [&] {
      for (const Point point : points) {
        if (reached_.at(static_cast<std::size_t>(point))) {
          return true;
        }
      }
      return false;
    });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::array<bool, static_cast<std::size_t>(Point::kCount)> reached_{};
};

/// One connection in WAL mode that never checkpoints by itself. Failures are exceptions.
class Connection {
 public:
  explicit Connection(const std::filesystem::path& file, const char* vfs_name = nullptr) {
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(file.c_str(), &opened, kFlags, vfs_name);
    database_.reset(opened);
    check(result, "open");
    execute("PRAGMA wal_autocheckpoint = 0");
    execute("PRAGMA journal_mode = WAL");
  }

  void execute(const char* sql) {
    check(sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr), sql);
  }

  /// One transaction; returning is the acknowledgement.
  void insert(int id, const std::string& body) {
    const Statement statement = prepare("INSERT INTO commits (id, body) VALUES (?, ?)");
    check(sqlite3_bind_int(statement.get(), 1, id), "bind");
    check(sqlite3_bind_text(statement.get(), 2, body.c_str(), -1, SQLITE_TRANSIENT), "bind");
    check(sqlite3_step(statement.get()), "insert");
  }

  /// The text in the first column of the first row; none if there is no row.
  std::optional<std::string> select(const char* sql, std::optional<int> parameter = {}) {
    const Statement statement = prepare(sql);
    if (parameter) {
      check(sqlite3_bind_int(statement.get(), 1, *parameter), "bind");
    }
    const int result = sqlite3_step(statement.get());
    check(result, sql);
    if (result == SQLITE_DONE) {
      return std::nullopt;
    }
    const void* const text = sqlite3_column_text(statement.get(), 0);
    return text == nullptr ? "" : static_cast<const char*>(text);
  }

  /// A passive checkpoint, which is also what an automatic one is. Says whether the database file
  /// has all frames of the WAL now.
  bool checkpoint() {
    int frames = 0;
    int copied = 0;
    check(sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &frames,
                                    &copied),
          "checkpoint");
    return frames > 0 && copied == frames;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Statement prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr), sql);
    return Statement(statement);
  }

  void check(int result, const char* what) const {
    if (result != SQLITE_OK && result != SQLITE_ROW && result != SQLITE_DONE) {
      throw std::runtime_error(std::string(what) + ": " + sqlite3_errmsg(database_.get()));
    }
  }

  std::unique_ptr<sqlite3, Close> database_;
};

/// The lock of our own, which tells the stage when the writer has to wait for it.
class TurnLock {
 public:
  explicit TurnLock(Stage& stage) : stage_(stage) {}

  void lock() {
    std::unique_lock guard(mutex_);
    if (held_) {
      stage_.reach(Point::kWriterWaiting);
    }
    if (!freed_.wait_for(guard, kDeadline, [this] { return !held_; })) {
      throw std::runtime_error("the lock was not freed in time");
    }
    held_ = true;
  }

  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      held_ = false;
    }
    freed_.notify_one();
  }

 private:
  Stage& stage_;
  std::mutex mutex_;
  std::condition_variable freed_;
  bool held_ = false;
};

/// Who plays: anything that can commit a numbered record and can checkpoint.
struct Players {
  std::function<void(int)> commit;      ///< Returns when the commit is acknowledged.
  std::function<bool()> checkpoint;     ///< Says whether it copied all.
  std::function<void()> arm_the_pause;  ///< The next checkpoint pauses after reading the header.
};

struct Played {
  bool writer_waited = false;              ///< Found the lock taken by the paused checkpoint.
  bool writer_met_the_checkpoint = false;  ///< Committed while the checkpoint was paused.
  int acknowledged = 0;                    ///< The commits 1 to this.
};

/// Acts on a thread of its own.
std::future<void> start(Stage& stage, Point over, std::function<void()> act) {
  return std::async(std::launch::async, [&stage, over, act = std::move(act)] {
    const std::shared_ptr<void> at_exit(nullptr, [&](void*) { stage.reach(over); });
    act();
  });
}

/// The schedule. Throws if a point of it is not reached.
Played play(Stage& stage, const Players& players, int second_round_commits) {
  Played played;
  const auto commit_next = [&] {
    players.commit(played.acknowledged + 1);
    ++played.acknowledged;
  };
  while (played.acknowledged < kFirstRoundCommits) {
    commit_next();
  }
  if (!players.checkpoint()) {  // Only after a complete one may the next commit start over.
    throw std::runtime_error("the first checkpoint was not complete");
  }

  std::future<void> checkpointing;
  std::future<void> committing;
  // Declared last: a future waits for its thread, and that one for this.
  const std::shared_ptr<void> at_exit(nullptr,
                                      [&stage](void*) { stage.reach(Point::kCheckpointReleased); });

  players.arm_the_pause();
  checkpointing = start(stage, Point::kCheckpointOver, [&] { (void)players.checkpoint(); });
  (void)stage.wait_for_any({Point::kCheckpointPaused, Point::kCheckpointOver});
  if (!stage.has_reached(Point::kCheckpointPaused)) {
    throw std::runtime_error("the checkpoint did not come to the point where it pauses");
  }
  committing = start(stage, Point::kWriterOver, commit_next);
  if (!stage.wait_for_any({Point::kWriterOver, Point::kWriterWaiting})) {
    throw std::runtime_error("the writer neither committed nor waited");
  }
  played.writer_waited = stage.has_reached(Point::kWriterWaiting);
  played.writer_met_the_checkpoint = stage.has_reached(Point::kWriterOver);

  stage.reach(Point::kCheckpointReleased);
  checkpointing.get();
  committing.get();
  while (played.acknowledged < kFirstRoundCommits + second_round_commits) {
    commit_next();
  }
  return played;
}

/// Long and in no order, so that each commit changes several pages of table and index.
std::string body_of(int id) {
  const std::uint32_t scattered = static_cast<std::uint32_t>(id) * 2'654'435'761U;
  return std::to_string(scattered) + std::string(400, static_cast<char>('a' + id % 26));
}

struct Audit {
  int lost = 0;
  std::string integrity;
};

/// What a later user of the file finds of the commits 1 to `acknowledged`.
Audit audit(const std::filesystem::path& file, int acknowledged) {
  Audit found;
  Connection reader(file);
  for (int id = 1; id <= acknowledged; ++id) {
    try {
      if (reader.select("SELECT body FROM commits WHERE id = ?", id) != body_of(id)) {
        ++found.lost;
      }
    } catch (const std::runtime_error&) {  // A page on the way to it is malformed.
      ++found.lost;
    }
  }
  try {
    found.integrity = reader.select("PRAGMA integrity_check").value_or("");
  } catch (const std::runtime_error& error) {
    found.integrity = error.what();
  }
  return found;
}

enum class Locking : std::uint8_t { kNone, kWrites, kWritesAndCheckpoints };

class WalReset : public ::testing::Test {
 protected:
  /// Plays the schedule with one connection that writes and one that checkpoints, closes both, and
  /// looks at what they left.
  void play_and_audit(Locking locking, int second_round_commits = kLongRoundCommits) {
    const std::filesystem::path file =
        directory_ / (std::to_string(second_round_commits) + ".db").c_str();
    {
      Stage stage;
      PausingVfs vfs(nullptr, [&stage] {
        stage.reach(Point::kCheckpointPaused);
        // At the deadline it goes on: the schedule, which waits too, reports the failure.
        (void)stage.wait_for_any({Point::kCheckpointReleased});
      });
      TurnLock turn(stage);
      Connection writer(file);
      writer.execute("CREATE TABLE commits (id INTEGER PRIMARY KEY, body TEXT UNIQUE)");
      Connection checkpointer(file, vfs.vfs_name().c_str());
      const auto guard_if = [&turn](bool locks) {
        return locks ? std::unique_lock(turn) : std::unique_lock<TurnLock>();
      };
      Players players;
      players.commit = [&](int id) {
        const auto guard = guard_if(locking != Locking::kNone);
        writer.insert(id, body_of(id));
      };
      players.checkpoint = [&] {
        const auto guard = guard_if(locking == Locking::kWritesAndCheckpoints);
        return checkpointer.checkpoint();
      };
      players.arm_the_pause = [&] { vfs.arm(); };
      played_ = play(stage, players, second_round_commits);
    }
    ASSERT_EQ(played_.acknowledged, kFirstRoundCommits + second_round_commits);
    found_ = audit(file, played_.acknowledged);
    RecordProperty("acknowledged", played_.acknowledged);
    RecordProperty("lost", found_.lost);
    RecordProperty("integrity", found_.integrity);
  }

  /// The fix came with 3.51.3, and went back into two older lines.
  static bool sqlite_has_the_race() {
    const int version = sqlite3_libversion_number();
    const bool backported = (version >= 3'044'006 && version < 3'045'000) ||
                            (version >= 3'050'007 && version < 3'051'000);
    return version < 3'051'003 && !backported;
  }

  void expect_losses() const {
    EXPECT_TRUE(played_.writer_met_the_checkpoint);
    EXPECT_FALSE(played_.writer_waited);
    EXPECT_GT(found_.lost, 0) << "SQLite " << sqlite3_libversion()
                              << " kept all: does this build carry the fix of 3.51.3?";
  }

  TempFolder directory_;
  Played played_;
  Audit found_;
};

TEST_F(WalReset, PlainSqliteLosesCommitsOnThisSchedule) {
  if (!sqlite_has_the_race()) {
    GTEST_SKIP() << "SQLite " << sqlite3_libversion() << " has the fix";
  }
  play_and_audit(Locking::kNone);
  expect_losses();
  EXPECT_NE(found_.integrity, "ok");
}

TEST_F(WalReset, PlainSqliteCanLoseThemWithoutATrace) {
  if (!sqlite_has_the_race()) {
    GTEST_SKIP() << "SQLite " << sqlite3_libversion() << " has the fix";
  }
  play_and_audit(Locking::kNone, kShortRoundCommits);
  expect_losses();
  EXPECT_EQ(found_.integrity, "ok");
}

// This is what a foreign program does that checkpoints the file: it knows nothing of our lock.
TEST_F(WalReset, ALockAroundWritesAloneDoesNotKeepThem) {
  if (!sqlite_has_the_race()) {
    GTEST_SKIP() << "SQLite " << sqlite3_libversion() << " has the fix";
  }
  play_and_audit(Locking::kWrites);
  expect_losses();
  EXPECT_NE(found_.integrity, "ok");
}

TEST_F(WalReset, ALockAroundWritesAndCheckpointsKeepsThem) {
  for (const int second_round_commits : {kShortRoundCommits, kLongRoundCommits}) {
    SCOPED_TRACE(second_round_commits);
    play_and_audit(Locking::kWritesAndCheckpoints, second_round_commits);
    EXPECT_TRUE(played_.writer_waited) << "the schedule was not tried";
    EXPECT_FALSE(played_.writer_met_the_checkpoint);
    EXPECT_EQ(found_.lost, 0);
    EXPECT_EQ(found_.integrity, "ok");
  }
}

}  // namespace
}  // namespace holdfast
