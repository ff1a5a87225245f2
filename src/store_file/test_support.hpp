// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_folder.hpp"
#include "file_backend.hpp"
#include "opening.hpp"
#include "store/sidecar.hpp"

namespace holdfast::detail {

/// A folder with a folder `store` to be, removed with the object.
class TestFolder {
 public:
  enum class On : std::uint8_t { kDisk, kMemory };
  /// In memory a sync costs nothing, which is for tests with many of them.
  explicit TestFolder(On on = On::kDisk)
      : folder_(on == On::kMemory && ::access("/dev/shm", W_OK) == 0
                    ? std::filesystem::path("/dev/shm")
                    : std::filesystem::temp_directory_path()) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }
  [[nodiscard]] std::filesystem::path store() const { return folder_ / "store"; }

 private:
  testing::TempFolder folder_;
};

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Without a committer and without a thread.
inline std::unique_ptr<FileBackend> open_backend(const std::filesystem::path& folder,
                                                 Files::Hook hook = {},
                                                 const FileOptions& options = {}) {
  const Files files(std::move(hook));
  Layout layout = open_folder(files, folder);
  auto sidecar = std::make_unique<Sidecar>(layout.sidecar());
  return std::make_unique<FileBackend>(files, std::move(layout), options, std::move(sidecar));
}

inline TimePoint soon() { return MonotonicTime::now() + std::chrono::minutes(1); }

using Rows = std::map<std::string, std::optional<std::string>>;

/// A turn that writes `rows`, as one transaction; its version.
inline Version write_rows(FileBackend& backend, const Rows& rows) {
  const auto turn = backend.begin_turn(soon());
  if (!turn) {
    ADD_FAILURE() << "no turn";
    return 0;
  }
  struct EndTurn {
    explicit EndTurn(FileBackend& of) : backend(of) {}
    EndTurn(const EndTurn&) = delete;
    EndTurn& operator=(const EndTurn&) = delete;
    ~EndTurn() { backend.end_turn(); }
    FileBackend& backend;
  };
  const EndTurn end(backend);
  const Version version = turn->last + 1;
  std::vector<Change> changes;
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : rows) {
    changes.push_back({key, value, version});
    keys.push_back(key);
  }
  backend.write(changes);
  static_cast<void>(backend.commit(version));
  backend.announce(version, keys);
  return version;
}

inline std::map<std::string, std::string> all_rows(FileBackend& backend) {
  std::map<std::string, std::string> rows;
  for (Entry& entry : backend.snapshot()->scan("", "", 1'000'000).entries) {
    rows.emplace(std::move(entry.key), std::move(entry.value));
  }
  return rows;
}

/// Transactions of all kinds for tests that stop them in the middle, and the state after each.
class Script {
 public:
  using State = std::map<std::string, std::string>;
  /// Are synced in another way than few.
  static constexpr int kMany = 12;

  Script() {
    const std::string nested(250, 'n');
    const std::string deep(2'048, '\xfe');
    transactions_ = {
        {{"a", "1"}, {"b", "1"}, {nested, "1"}},
        {{"a", "2"}, {"c/\xff", "\xfe"}},
        {{"a", std::nullopt}, {nested, std::nullopt}, {"none", std::nullopt}, {nested + "2", "3"}},
        {{"b", "4"}, {deep, "4"}, {"d", ""}},
        {{deep, std::nullopt}, {nested + "2", std::nullopt}, {"a", "5"}},
        {{"b", std::nullopt}},
    };
    for (char last = 'a'; last < 'a' + kMany; ++last) {
      transactions_.back().emplace(std::string("many/") + last, "6");
    }
    states_.emplace_back();
    for (const Rows& rows : transactions_) {
      State state = states_.back();
      for (const auto& [key, value] : rows) {
        state.erase(key);
        if (value) {
          state.emplace(key, *value);
        }
      }
      states_.push_back(std::move(state));
    }
  }

  [[nodiscard]] const std::vector<Rows>& transactions() const noexcept { return transactions_; }
  /// After so many transactions.
  [[nodiscard]] const State& state(std::size_t count) const { return states_.at(count); }
  [[nodiscard]] bool is_state(const State& state, std::size_t acknowledged) const {
    return state == states_.at(acknowledged) ||
           (acknowledged + 1 < states_.size() && state == states_[acknowledged + 1]);
  }

 private:
  std::vector<Rows> transactions_;
  std::vector<State> states_;
};

}  // namespace holdfast::detail
