// SPDX-License-Identifier: Apache-2.0
// What is acknowledged survives the loss of all that was not synced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <holdfast/store_error.hpp>

#include "file_backend.hpp"
#include "test_support.hpp"

namespace holdfast::detail {
namespace {

using ::testing::IsEmpty;
namespace fs = std::filesystem;

/// Watches the steps of a store, and knows what a power cut may leave of it. Of a folder: its names
/// as they were at some moment since it was last synced. Of a file: what was synced, or else
/// nothing, a part, or all.
class PowerCut {
 public:
  PowerCut(fs::path store, fs::path graveyard)
      : store_(std::move(store)), graveyard_(std::move(graveyard)) {
    fs::create_directory(graveyard_);
  }

  /// To be called before each step, and thus after the one before it.
  void look(Files::Step next, const fs::path& path) {
    if (!fs::exists(store_)) {
      return;
    }
    look_at_folder(store_);
    if (step_ == Files::Step::kSyncDirectory && folders_.contains(path_)) {
      folders_[path_] = {folders_[path_].back()};
    }
    if (step_ == Files::Step::kSync) {
      synced_[inode_of(path_)] = text_of_file(path_);
    }
    if (step_ == Files::Step::kSyncFileSystem) {
      sync_all();
    }
    step_ = next;
    path_ = path;
  }

  /// The step that was looked at last will fail.
  void forget_step() { step_ = Files::Step::kRead; }

  /// What is left, one of many possibilities.
  void cut(const fs::path& target, std::mt19937_64& random) const {
    fs::create_directory(target);
    fs::permissions(target, fs::perms::owner_all);
    leave(store_, target, random);
  }

 private:
  using Inode = std::uint64_t;
  struct Folder {};
  using Names = std::map<std::string, std::variant<Folder, Inode>>;

  static Inode inode_of(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_ino;
  }

  void sync_all() {
    for (auto& [path, history] : folders_) {
      history = {history.back()};
      for (const auto& [name, what] : history.back()) {
        if (const Inode* inode = std::get_if<Inode>(&what)) {
          synced_[*inode] = text_of_file(graveyard_ / std::to_string(*inode));
        }
      }
    }
  }

  void look_at_folder(const fs::path& folder) {
    Names names;
    for (const auto& item : fs::directory_iterator(folder)) {
      const std::string name = item.path().filename().string();
      if (item.is_directory()) {
        names.emplace(name, Folder());
        look_at_folder(item.path());
      } else if (name != Layout::kSidecar && name != Layout::kReadersLock) {
        const Inode inode = inode_of(item.path());
        names.emplace(name, inode);
        // As long as the file has a name its number is not given to another one.
        const fs::path grave = graveyard_ / std::to_string(inode);
        if (!fs::exists(grave)) {
          fs::create_hard_link(item.path(), grave);
        }
      }
    }
    folders_[folder].push_back(std::move(names));
  }

  void leave(const fs::path& folder, const fs::path& target, std::mt19937_64& random) const {
    const auto found = folders_.find(folder);
    if (found == folders_.end()) {
      return;
    }
    const std::vector<Names>& history = found->second;
    for (const auto& [name, what] : history[random() % history.size()]) {
      if (const Inode* inode = std::get_if<Inode>(&what)) {
        write_file(target / name, left_of(*inode, random));
      } else {
        fs::create_directory(target / name);
        leave(folder / name, target / name, random);
      }
    }
  }

  [[nodiscard]] std::string left_of(Inode inode, std::mt19937_64& random) const {
    std::string text = text_of_file(graveyard_ / std::to_string(inode));
    const auto synced = synced_.find(inode);
    if (synced == synced_.end() || synced->second != text) {
      text.resize(text.size() * (random() % 3) / 2);
    }
    return text;
  }

  fs::path store_;
  fs::path graveyard_;
  Files::Step step_ = Files::Step::kRead;
  fs::path path_;
  std::map<fs::path, std::vector<Names>> folders_;
  std::map<Inode, std::string> synced_;
};

/// Runs the script, with power cuts before each step.
class FileStorePowerCut : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSeeds = 8;

  /// What a power cut leaves at this moment is sound.
  void look_and_cut(Files::Step next, const fs::path& path) {
    ++step_;
    power_.look(next, path);
    for (std::uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
      SCOPED_TRACE("power cut before step " + std::to_string(step_) + ", seed " +
                   std::to_string(seed));
      std::mt19937_64 random(step_ * kSeeds + seed);
      const fs::path left = folder_.path() / "left";
      power_.cut(left, random);
      const auto backend = open_backend(left);
      EXPECT_TRUE(script_.is_state(all_rows(*backend), acknowledged_)) << acknowledged_;
      EXPECT_THAT(backend->check().faults, IsEmpty());
      EXPECT_GT(write_rows(*backend, {{"after", "it"}}), last_version_);
      fs::remove_all(left);
    }
  }

  void run(FileBackend& backend, std::size_t until) {
    while (acknowledged_ < until) {
      last_version_ = write_rows(backend, script_.transactions()[acknowledged_]);
      ++acknowledged_;
    }
  }

  const Script script_;
  const TestFolder folder_{TestFolder::On::kMemory};
  PowerCut power_{folder_.store(), folder_.path() / "graveyard"};
  std::size_t acknowledged_ = 0;
  Version last_version_ = 0;
  std::uint64_t step_ = 0;
};

TEST_F(FileStorePowerCut, AtAnyStepLosesNothingAcknowledgedAndLeavesNothingInPart) {
  const auto backend = open_backend(folder_.store(), [&](Files::Step next, const fs::path& path) {
    look_and_cut(next, path);
    return 0;
  });
  run(*backend, script_.transactions().size());
  EXPECT_GT(step_, 100U);
}

TEST_F(FileStorePowerCut, InARecoveryFromAJournalThatIsNotDurableYetLeavesNothingInPart) {
  bool dies_before_sync = false;
  const auto hook = [&](Files::Step next, const fs::path& path) {
    look_and_cut(next, path);
    const bool journal_is_there = fs::exists(folder_.store() / Layout::kJournal);
    if (dies_before_sync && journal_is_there && next == Files::Step::kSyncDirectory) {
      power_.forget_step();
      return EIO;
    }
    return 0;
  };
  constexpr std::size_t kTransaction = 2;
  {
    const auto dying = open_backend(folder_.store(), hook);
    run(*dying, kTransaction);
    dies_before_sync = true;
    EXPECT_THROW(write_rows(*dying, script_.transactions()[kTransaction]), StoreFailed);
    dies_before_sync = false;
  }
  const auto next = open_backend(folder_.store(), hook);
  EXPECT_EQ(all_rows(*next), script_.state(kTransaction + 1));
}

}  // namespace
}  // namespace holdfast::detail
