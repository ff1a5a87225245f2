// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace holdfast::testing {

/// SQLite's default VFS, under which the process kills itself (SIGKILL) before one of the creates,
/// writes, truncates, syncs, deletes and locks of the log, counted from 0.
class MortalVfs {
 public:
  explicit MortalVfs(std::uint64_t dies_before);
  MortalVfs(const MortalVfs&) = delete;
  MortalVfs& operator=(const MortalVfs&) = delete;
  ~MortalVfs();

  /// Counted from now on.
  void die_before(std::uint64_t point);

  [[nodiscard]] const std::string& name() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::testing
