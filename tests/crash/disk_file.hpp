// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/crash/dice.hpp"

namespace holdfast::testing {

inline constexpr std::size_t kSectorBytes = 512;

/// The bytes of one file of a simulated disk: as processes see them, as a crash would leave them at
/// the least, and the changes between the two.
///
/// The disk may carry the changes out in any order, and a write sector by sector, until a sync.
/// Bytes beside those that are written are safe (POWERSAFE_OVERWRITE).
class DiskFile {
 public:
  DiskFile() = default;
  explicit DiskFile(std::string bytes) : seen_(bytes), durable_(std::move(bytes)) {}

  [[nodiscard]] const std::string& seen() const { return seen_; }
  [[nodiscard]] const std::string& durable() const { return durable_; }
  [[nodiscard]] std::size_t unsynced() const { return changes_.size(); }

  void write(std::size_t at, std::string_view bytes);
  void truncate(std::size_t size);
  void sync();
  /// As kernels do: the pages that could not be written count as clean from now on. Each change is
  /// lost for good, or goes on waiting for a sync.
  void fail_sync(Dice& dice);
  /// Power is lost: the changes that are not synced are lost, kept, cut off somewhere, or kept in
  /// part, in any order and torn.
  void crash(Dice& dice);

 private:
  struct Change {
    enum class Kind { kWrite, kTruncate } kind;
    std::size_t at;  // Of a truncate: the new size.
    std::string bytes;
  };

  static void apply(std::string& content, std::size_t at, std::string_view bytes);
  static void apply(std::string& content, const Change& change);
  static void tear(std::string& content, const Change& change, Dice& dice);
  void keep_some(Dice& dice);

  std::string seen_;
  std::string durable_;
  std::vector<Change> changes_;
};

}  // namespace holdfast::testing
