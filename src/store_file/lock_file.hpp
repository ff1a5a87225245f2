// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

#include <holdfast/clock.hpp>

#include "descriptor.hpp"

namespace holdfast::detail {

/// Keeps readers from seeing half a transaction: they share the lock, and a writer has it alone
/// while it changes what they read. A writer that waits keeps new readers out, so that it is not
/// kept waiting for ever. The kernel takes the lock from the dead.
///
/// Each object is a party of its own, also within a process; it is for one thread at a time. Nobody
/// deletes the file while the store is in use: parties of different files do not know each other.
class LockFile {
 public:
  /// Opens the file, or creates it with mode 0600. Throws `FileError`.
  explicit LockFile(std::filesystem::path path);

  /// False if `until` (of MonotonicTime) passed first. Throws `FileError`.
  [[nodiscard]] bool lock_shared(TimePoint until);
  [[nodiscard]] bool lock_alone(TimePoint until);
  void unlock() noexcept;

  // A bit in the file, for those who take turns to write. It need not survive a crash of the
  // machine.

  /// What `set_settled` was last called with, in whatever process; false if it never was.
  [[nodiscard]] bool is_settled() const;
  void set_settled(bool settled);

 private:
  /// Locked one after the other. Who waits for the second one already has the first.
  enum class Byte : std::uint8_t { kDoor, kInside };

  [[nodiscard]] bool try_lock(Byte byte, short type);
  [[nodiscard]] bool lock(Byte byte, short type, TimePoint until);

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace holdfast::detail
