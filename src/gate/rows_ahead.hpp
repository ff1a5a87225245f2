// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include <holdfast/commit_outcome.hpp>

namespace holdfast::detail {

/// Rows that will be wanted in their order, one behind the other in memory: of a long queue nothing
/// is in the processor's caches any more, and what lies in a row is fetched ahead of its use.
class RowsAhead {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Of the one that was pushed last.
  [[nodiscard]] const std::string& last_key() const noexcept { return last_key_; }

  void push(std::string_view key, std::string_view value);
  /// The first one, without its version. There is one.
  void pop(Entry& into);
  void clear() noexcept;

 private:
  std::deque<std::string> chunks_;
  std::size_t read_ = 0;  // Of the first chunk.
  std::size_t size_ = 0;
  std::string last_key_;
};

}  // namespace holdfast::detail
