// SPDX-License-Identifier: Apache-2.0
// What is acknowledged is there, and nothing is there in part, wherever a process is killed and
// whichever call fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <new>
#include <string>

#include <holdfast/store_error.hpp>

#include "file_backend.hpp"
#include "test_support.hpp"

namespace holdfast::detail {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

/// What a child tells before it dies.
struct Told {
  std::size_t acknowledged = 0;
  Version last_version = 0;
};

class SharedTold {
 public:
  SharedTold()
      : told_(new(::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0)) Told{}) {}
  SharedTold(const SharedTold&) = delete;
  SharedTold& operator=(const SharedTold&) = delete;
  ~SharedTold() { ::munmap(told_, sizeof(Told)); }
  Told& operator*() const { return *told_; }
  Told* operator->() const { return told_; }

 private:
  Told* told_;
};

/// Does not let the n-th step happen, nor any other.
Files::Hook killer(std::uint64_t at_step) {
  return [at_step, step = std::uint64_t{0}](Files::Step, const fs::path&) mutable {
    if (++step == at_step) {
      ::raise(SIGKILL);
    }
    return 0;
  };
}

struct Killed {};

/// The same without the death: nobody else catches this, and what is destroyed on the way out
/// changes no file. Many times faster.
Files::Hook thrower(std::uint64_t at_step) {
  return [at_step, step = std::uint64_t{0}](Files::Step, const fs::path&) mutable {
    if (++step == at_step) {
      throw Killed();
    }
    return 0;
  };
}

bool recovers(const fs::path& store, std::uint64_t killed_at_step) {
  try {
    open_backend(store, thrower(killed_at_step));
    return true;
  } catch (const Killed&) {
    return false;
  }
}

/// Runs `part` in a process of its own; false if it was killed.
bool survives(const std::function<void()>& part) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      part();
    } catch (...) {
      ::_exit(2);
    }
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return true;
  }
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  return false;
}

bool is_empty_or_missing(const fs::path& folder) {
  return !fs::exists(folder) || fs::is_empty(folder);
}

void run(const Script& script, const fs::path& store, const Files::Hook& hook, Told& told) {
  const auto backend = open_backend(store, hook);
  for (const Rows& rows : script.transactions()) {
    told.last_version = write_rows(*backend, rows);
    ++told.acknowledged;
  }
}

void expect_sound(const Script& script, const fs::path& store, const Told& told) {
  const auto backend = open_backend(store);
  EXPECT_TRUE(script.is_state(all_rows(*backend), told.acknowledged))
      << "after " << told.acknowledged << " acknowledged transactions";
  EXPECT_THAT(backend->check().faults, IsEmpty());
  EXPECT_FALSE(fs::exists(store / "journal.json"));
  EXPECT_GT(write_rows(*backend, {{"after", "it"}}), told.last_version);
  EXPECT_EQ(backend->get("after").value().value, "it");
  EXPECT_THAT(backend->check().faults, IsEmpty());
  EXPECT_TRUE(is_empty_or_missing(store / "new"));
}

TEST(FileStoreCrash, AKillAtAnyStepLosesNothingAcknowledgedAndLeavesNothingInPart) {
  const Script script;
  bool ended = false;
  std::uint64_t step = 0;
  while (!ended && !::testing::Test::HasFailure()) {
    SCOPED_TRACE("killed at step " + std::to_string(++step));
    const TestFolder folder(TestFolder::On::kMemory);
    const SharedTold told;
    ended = survives([&] { run(script, folder.store(), killer(step), *told); });
    expect_sound(script, folder.store(), *told);
  }
  EXPECT_GT(step, 100U) << "many steps were tried";
}

TEST(FileStoreCrash, AKillAtAnyStepOfTheRecoveryIsRecoveredFromAsWell) {
  const Script script;
  bool ended = false;
  for (std::uint64_t step = 1; !ended && !::testing::Test::HasFailure(); ++step) {
    const TestFolder folder(TestFolder::On::kMemory);
    const SharedTold told;
    ended = survives([&] { run(script, folder.store(), killer(step), *told); });
    const bool erases = told->acknowledged == 2 || told->acknowledged == 4;
    if (!erases || !fs::exists(folder.store() / "journal.json")) {
      continue;  // Those that only put have no step that those do not have.
    }
    const fs::path before = folder.path() / "before";
    fs::remove(folder.store() / Layout::kSidecar);  // Large, and of no use to the next one.
    fs::copy(folder.store(), before, fs::copy_options::recursive);
    bool recovered = false;
    for (std::uint64_t again = 1; !recovered && !::testing::Test::HasFailure(); ++again) {
      SCOPED_TRACE("killed at step " + std::to_string(step) + ", then at " + std::to_string(again));
      fs::remove_all(folder.store());
      fs::copy(before, folder.store(), fs::copy_options::recursive);
      recovered = recovers(folder.store(), again);
      const auto backend = open_backend(folder.store());
      EXPECT_EQ(all_rows(*backend), script.state(told->acknowledged + 1))
          << "what had its journal did happen";
      EXPECT_THAT(backend->check().faults, IsEmpty());
    }
  }
}

/// Fails the n-th step from when it is armed, and, with `stays`, all after it, which is told apart
/// from steps that a full disk would not refuse.
class Fault {
 public:
  Fault(int error, bool stays) : error_(error), stays_(stays) {}

  void arm(std::uint64_t at_step) {
    at_step_ = at_step;
    step_ = 0;
  }
  void disarm() { at_step_ = 0; }
  [[nodiscard]] bool reached() const { return step_ >= at_step_; }

  int operator()(Files::Step step) {
    const bool takes_space = step != Files::Step::kUnlink && step != Files::Step::kRead &&
                             step != Files::Step::kList && step != Files::Step::kRemoveDirectory;
    if (at_step_ == 0 || (error_ == ENOSPC && !takes_space)) {
      return 0;
    }
    ++step_;
    return step_ == at_step_ || (stays_ && step_ > at_step_) ? error_ : 0;
  }

 private:
  int error_;
  bool stays_;
  std::uint64_t at_step_ = 0;
  std::uint64_t step_ = 0;
};

struct FaultCase {
  int error;
  bool stays;
};

class FileStoreFault : public ::testing::TestWithParam<FaultCase> {};

/// One transaction, with the fault at one step of it. True if the fault was reached.
bool write_with_fault(const Script& script, std::size_t transaction, std::uint64_t step,
                      const FaultCase& param) {
  const TestFolder folder(TestFolder::On::kMemory);
  Fault fault(param.error, param.stays);
  auto backend =
      open_backend(folder.store(), [&](Files::Step at, const fs::path&) { return fault(at); });
  Told told;
  for (; told.acknowledged < transaction; ++told.acknowledged) {
    told.last_version = write_rows(*backend, script.transactions()[told.acknowledged]);
  }
  fault.arm(step);
  bool full = false;
  try {
    write_rows(*backend, script.transactions()[transaction]);
    ++told.acknowledged;
  } catch (const StoreFull&) {
    full = true;
  } catch (const StoreFailed&) {
    EXPECT_TRUE(fault.reached());
  }
  const bool reached = fault.reached();
  fault.disarm();
  if (full) {
    EXPECT_EQ(param.error, ENOSPC);
    EXPECT_EQ(all_rows(*backend), script.state(transaction)) << "a full disk changes nothing";
    EXPECT_FALSE(fs::exists(folder.store() / "journal.json.new"));
    EXPECT_TRUE(is_empty_or_missing(folder.store() / "new"));
    write_rows(*backend, script.transactions()[transaction]);
    ++told.acknowledged;
    EXPECT_EQ(all_rows(*backend), script.state(transaction + 1)) << "and then it goes on";
  }
  backend.reset();
  expect_sound(script, folder.store(), told);
  return reached;
}

TEST_P(FileStoreFault, AtAnyStepLosesNothingAcknowledgedAndLeavesNothingInPart) {
  const Script script;
  for (std::size_t transaction = 0; transaction < script.transactions().size(); ++transaction) {
    bool reached = true;
    for (std::uint64_t step = 1; reached && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("transaction " + std::to_string(transaction) + ", step " + std::to_string(step));
      reached = write_with_fault(script, transaction, step, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, FileStoreFault,
                         ::testing::Values(FaultCase{ENOSPC, false}, FaultCase{ENOSPC, true},
                                           FaultCase{EIO, false}, FaultCase{EIO, true}),
                         [](const auto& fault) {
                           return std::string(fault.param.error == EIO ? "BrokenDisk"
                                                                       : "FullDisk") +
                                  (fault.param.stays ? "ForLong" : "Once");
                         });

TEST(FileStoreCrash, AFailedSyncIsNeverTakenForASuccess) {
  const TestFolder folder(TestFolder::On::kMemory);
  for (const auto step : {Files::Step::kSync, Files::Step::kSyncDirectory}) {
    bool broken = false;
    const auto backend = open_backend(folder.store(), [&](Files::Step at, const fs::path&) {
      return broken && at == step ? EIO : 0;
    });
    write_rows(*backend, {{"a", "1"}});
    broken = true;
    EXPECT_THROW(write_rows(*backend, {{"a", "2"}}), StoreFailed);
  }
}

// --- Damage --------------------------------------------------------------------------------------

/// All that an error or a report says about the store; nothing if it has the data, and is sound.
std::string complaint(const fs::path& store, const Script::State& expected) {
  try {
    const auto backend = open_backend(store);
    const CheckReport report = backend->check();
    if (!report.faults.empty()) {
      return report.faults.front();
    }
    EXPECT_EQ(all_rows(*backend), expected);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

void flip_each_byte(const fs::path& store, const fs::path& file, const Script::State& expected,
                    std::size_t bytes_max, bool harmless) {
  const std::string whole = text_of_file(file);
  for (std::size_t at = 0; at < std::min(whole.size(), bytes_max); ++at) {
    for (const int bits : {0x01, 0x20, 0x80}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ bits);
      write_file(file, flipped);
      const std::string said = complaint(store, expected);
      SCOPED_TRACE(file.string() + " byte " + std::to_string(at) + ": " + said);
      if (harmless) {
        EXPECT_TRUE(said.empty() || said.find(file.filename()) != said.npos);
      } else {
        EXPECT_THAT(said, HasSubstr(file.filename().string()));
      }
    }
  }
  write_file(file, whole);
}

TEST(FileStoreDamage, EachFlippedByteIsNoticedOrHarmless) {
  const TestFolder folder(TestFolder::On::kMemory);
  const fs::path store = folder.store();
  const Script::State rows{{"a/1", "text"}, {"b", "\xff"}, {std::string(250, 'n'), ""}};
  write_rows(*open_backend(store), Rows(rows.begin(), rows.end()));
  for (const auto& [key, value] : rows) {
    flip_each_byte(store, Layout(store).entry(key), rows, 10'000, false);
  }
  flip_each_byte(store, store / "store.json", rows, 10'000, false);
  flip_each_byte(store, store / "readers.lock", rows, 10'000, true);
  flip_each_byte(store, store / "hold", rows, 64, true);
  EXPECT_EQ(complaint(store, rows), "");
}

TEST(FileStoreDamage, ADamagedJournalIsNotReplayed) {
  const TestFolder folder(TestFolder::On::kMemory);
  const fs::path store = folder.store();
  bool broken = false;
  {
    const auto backend = open_backend(store, [&](Files::Step step, const fs::path& path) {
      return broken && step == Files::Step::kRename && path.filename() == "0" ? EIO : 0;
    });
    write_rows(*backend, {{"a", "1"}});
    broken = true;
    EXPECT_THROW(write_rows(*backend, {{"a", "2"}, {"b", "\xff"}}), StoreFailed);
  }
  ASSERT_TRUE(fs::exists(store / "journal.json"));
  flip_each_byte(store, store / "journal.json", {{"a", "1"}}, 10'000, false);
  EXPECT_THAT(text_of_file(Layout(store).entry("a")), HasSubstr(R"("text":"1")"));
  EXPECT_EQ(complaint(store, {{"a", "2"}, {"b", "\xff"}}), "");
}

}  // namespace
}  // namespace holdfast::detail
