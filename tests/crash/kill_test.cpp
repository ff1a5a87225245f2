// SPDX-License-Identifier: Apache-2.0
//
// Processes that write to one store on a real disk, and are killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "base/temp_folder.hpp"
#include "tests/crash/writer.hpp"

namespace holdfast::testing {
namespace {

constexpr std::uint64_t kEndless = 1'000'000;

/// A writer, as the test sees it: a process with acknowledgements coming out of it.
class Writer {
 public:
  enum class Tells : std::uint8_t { kOfDurable, kOfApplied };
  Writer(const std::string& store, std::uint64_t id, std::uint64_t first, std::uint64_t count,
         std::optional<std::uint64_t> dies_before = {}, Tells tells = Tells::kOfDurable)
      : id_(id), first_(first) {
    std::vector<std::string> arguments = {HOLDFAST_CRASH_WRITER, store, std::to_string(id),
                                          std::to_string(first), std::to_string(count)};
    if (dies_before) {
      arguments.push_back(std::to_string(*dies_before));
    }
    if (tells == Tells::kOfApplied) {
      arguments.emplace_back("applied");
    }
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipe");
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int error =
        ::posix_spawn(&process_, pointers[0], &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    pipe_ = ends[0];
    if (error != 0) {
      throw std::runtime_error("the writer was not started");
    }
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (process_ > 0) {
      kill();
    }
    ::close(pipe_);
  }

  /// Waits for so many acknowledgements, or all that come.
  void read(std::uint64_t count) {
    Ack ack{};
    while (count-- > 0 && ::read(pipe_, &ack, sizeof ack) == sizeof ack) {
      acks_.push_back(ack);
    }
  }
  void kill() {
    ::kill(process_, SIGKILL);
    wait();
  }
  /// True: it ended well. False: it was killed.
  bool wait() {
    read(kEndless);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "the writer failed";
    return WIFEXITED(status);
  }

  [[nodiscard]] std::size_t acks() const { return acks_.size(); }
  [[nodiscard]] Version last_version() const {
    Version last = 0;
    for (const Ack& ack : acks_) {
      last = std::max(last, ack.version);
    }
    return last;
  }
  /// Of the batches that can have been begun.
  [[nodiscard]] std::uint64_t end() const { return first_ + acks_.size() + kWriterTasks; }

  /// After its end.
  void tell(Ledger& ledger) const {
    std::map<std::uint64_t, Ledger::Id> ids;
    for (std::uint64_t number = first_; number < end(); ++number) {
      Batch batch = writer_batch(id_, number);
      ids[number] = ledger.enter(batch, writer_marker(id_, number));
    }
    for (const Ack& ack : acks_) {
      ledger.acknowledged(ids.at(ack.number), Committed{ack.version});
    }
  }

 private:
  std::uint64_t id_;
  std::uint64_t first_;
  pid_t process_ = 0;
  int pipe_ = -1;
  std::vector<Ack> acks_;
};

/// Opens the store, and says what is wrong with it.
std::vector<std::string> audit(const std::string& path, Ledger& ledger) {
  ThreadPool pool(1);
  const auto store = open_sqlite_store(path);
  Ledger::Audit audit = ledger.audit(read_all(pool, *store));
  if (audit.lost > 0) {
    audit.faults.push_back(std::to_string(audit.lost) + " acknowledged batches are lost");
  }
  const CheckReport report = sync_wait(pool, store->check());
  audit.faults.insert(audit.faults.end(), report.faults.begin(), report.faults.end());
  return audit.faults;
}

/// Durably; the version.
Version put(ThreadPool& pool, Store& store, const std::string& key) {
  Batch batch;
  batch.put(key, "");
  const CommitOutcome outcome = sync_wait(pool, store.commit(std::move(batch)));
  return outcome.committed() == nullptr ? 0 : outcome.committed()->version;
}

TEST(Kill, AtRandomMomentsLosesNothingThatWasAcknowledged) {
  constexpr std::uint64_t kSeed = 20'261;
  const TempFolder folder;
  const std::string path = folder / "store.db";
  Dice dice(kSeed);
  Ledger ledger;
  std::uint64_t next = 0;
  std::uint64_t next_of_other = 0;
  std::size_t acks = 0;
  for (int round = 0; round < HOLDFAST_CRASH_KILLS; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round) +
                 ": crash_kill_test --gtest_filter=Kill.AtRandom*");
    ledger.begin_life();
    std::optional<Writer> other;
    if (dice.one_in(3)) {
      other.emplace(path, 2, next_of_other, kEndless);
    }
    Writer writer(path, 1, next, kEndless);
    writer.read(dice.below(12));
    writer.kill();
    writer.tell(ledger);
    next = writer.end();
    acks += writer.acks();
    if (other) {
      other->read(other->acks() + 3);  // It goes on, whatever the dead one held.
      other->kill();
      other->tell(ledger);
      next_of_other = other->end();
      acks += other->acks();
      EXPECT_GE(other->acks(), 3U);
    }
    ASSERT_EQ(text_of(audit(path, ledger)), "");
  }
  std::cout << HOLDFAST_CRASH_KILLS << " rounds, " << acks << " commits acknowledged\n";
}

TEST(Kill, AtEachCommitPointLosesNothingThatWasAcknowledged) {
  constexpr std::uint64_t kBatches = 6;
  std::uint64_t point = 0;
  for (bool killed = true; killed; point += HOLDFAST_CRASH_POINT_STEP) {
    SCOPED_TRACE("killed before operation " + std::to_string(point));
    const TempFolder folder;
    const std::string path = folder / "store.db";
    Ledger ledger;
    ledger.begin_life();
    Writer writer(path, 1, 0, kBatches, point);
    killed = !writer.wait();
    writer.tell(ledger);
    ASSERT_EQ(text_of(audit(path, ledger)), "");
    EXPECT_TRUE(killed || writer.acks() == kBatches);

    ledger.begin_life();
    Writer heir(path, 2, 0, 2);
    EXPECT_TRUE(heir.wait());
    heir.tell(ledger);
    ASSERT_EQ(text_of(audit(path, ledger)), "");
    EXPECT_EQ(heir.acks(), 2U);
  }
  std::cout << point << " points\n";
}

/// A hold that was handed over inside a process is used before it is durable, and its fence is a
/// version.
TEST(Kill, AVersionThatDiedWithAProcessIsNotGivenByOneThatLivesOn) {
  constexpr std::uint64_t kBatches = 6;
  std::uint64_t point = 0;
  int lost = 0;
  for (bool killed = true; killed; ++point) {
    SCOPED_TRACE("killed before operation " + std::to_string(point));
    const TempFolder folder;
    const std::string path = folder / "store.db";
    ThreadPool pool(1);
    const auto survivor = open_sqlite_store(path);
    ASSERT_NE(put(pool, *survivor, "before"), 0U);

    Writer writer(path, 1, 0, kBatches, point, Writer::Tells::kOfApplied);
    killed = !writer.wait();
    const StoreStats durable = sync_wait(pool, survivor->stats());
    lost += writer.last_version() > durable.last_version ? 1 : 0;
    EXPECT_GT(put(pool, *survivor, "after"), writer.last_version());
  }
  EXPECT_GT(lost, 0) << "or nothing was shown";
  std::cout << point << " points, at " << lost << " of them versions were lost\n";
}

}  // namespace
}  // namespace holdfast::testing
