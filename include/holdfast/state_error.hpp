// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast {

/// A change of a cell was asked for inside the function that changes the same cell: it would wait
/// for itself. Nothing was changed by it; do both in one function.
class ReentrantMutation final : public detail::ErrorOf<ErrorCode::kReentrantMutation> {
  using ErrorOf::ErrorOf;
};

/// Other processes changed the cell again and again while this one tried to. Nothing was written.
class ConcurrentModification final : public detail::ErrorOf<ErrorCode::kConcurrentModification> {
 public:
  ConcurrentModification(std::string key, std::uint32_t attempts);

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }

 private:
  std::string key_;
  std::uint32_t attempts_;
};

/// A change of a cell in memory took longer than its time-out, its wait in line included.
class MutationTimeout final : public detail::ErrorOf<ErrorCode::kMutationTimeout> {
 public:
  MutationTimeout(std::string key, bool started);

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  /// The function was running, and goes on: its change may still come. Otherwise it was waiting,
  /// has left the line, and will change nothing.
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  std::string key_;
  bool started_;
};

}  // namespace holdfast
