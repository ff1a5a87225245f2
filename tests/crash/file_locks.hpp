// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace holdfast::testing {

/// What the connections to one database file share but the file: SQLite's locks, and the memory of
/// the WAL's index. Made anew when the processes die. The caller serialises the calls.
class FileLocks {
 public:
  /// One connection's part.
  class Holder {
   public:
    explicit Holder(std::shared_ptr<FileLocks> locks);
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    ~Holder();

    /// Levels, results and flags are SQLite's.
    int lock(int level);
    void unlock(int level);
    [[nodiscard]] bool anyone_reserved() const;

    int map(int region, int bytes, bool extend, volatile void** memory);
    int lock_shm(int offset, int count, int flags);
    void unmap();

   private:
    [[nodiscard]] bool other_at_least(int level) const;

    std::shared_ptr<FileLocks> locks_;
    int level_ = 0;
    std::uint32_t shm_shared_ = 0;  // A bit per lock.
    std::uint32_t shm_exclusive_ = 0;
    bool mapped_ = false;
  };

 private:
  std::vector<Holder*> holders_;
  std::vector<std::unique_ptr<std::uint64_t[]>> regions_;
};

}  // namespace holdfast::testing
