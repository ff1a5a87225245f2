// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// The number of the commit that wrote an entry. Every commit of a store has a greater one than all
/// before it; none is ever given twice, so an old version never matches a key that was deleted and
/// made again. No entry has version 0.
using Version = std::uint64_t;

/// Conditions and writes that a store applies as a whole or not at all.
///
/// ```
/// Batch move;
/// move.require_version("account/1", first.version).put("account/1", "90");
/// move.require_version("account/2", second.version).put("account/2", "110");
/// const CommitOutcome outcome = co_await store->commit(std::move(move));
/// ```
///
/// All conditions are checked against the state before the batch. Of two writes to one key the
/// later one counts. Keys and values are bytes, copied at the call.
class Batch {
 public:
  enum class Kind : std::uint8_t { kAbsent, kNew, kVersion, kGuard };
  struct Condition {
    Kind kind;
    std::string key;
    Version version = 0;
  };
  struct Write {
    std::string key;
    std::optional<std::string> value;  ///< Nothing: the key is erased.
    bool is_new = false;               ///< It was put as such.
  };

  /// The key must not exist; otherwise the outcome is `Conflict`.
  Batch& require_absent(std::string_view key);
  /// The same for a key that should never have existed, such as that of the next row of a journal:
  /// a store need not look for it before it writes. If it finds it then, the batch is lost, with
  /// all that was built on it.
  Batch& require_new(std::string_view key);
  /// The key must exist at this version; otherwise the outcome is `Conflict`.
  Batch& require_version(std::string_view key, Version version);
  /// The same for a key that stands for the right to write at all, such as an epoch: otherwise the
  /// outcome is `Fenced`, whatever else does not hold.
  Batch& guard(std::string_view key, Version version);

  Batch& put(std::string_view key, std::string_view value);
  /// A string that is moved in need not be copied.
  template <std::same_as<std::string> Value>
  Batch& put(std::string_view key, Value&& value) {
    return put_owned(std::string(key), std::forward<Value>(value));
  }
  template <std::same_as<std::string> Key, std::same_as<std::string> Value>
  Batch& put(Key&& key, Value&& value) {
    return put_owned(std::forward<Key>(key), std::forward<Value>(value));
  }
  /// The same for a key that does not exist, which is not checked: such as one with an id that
  /// nobody else has. If it is erased again before it was written, it need not be written at all.
  Batch& put_new(std::string key, std::string value);
  /// Erasing a key that does not exist is no error.
  Batch& erase(std::string_view key);
  template <std::same_as<std::string> Key>
  Batch& erase(Key&& key) {
    return erase_owned(std::forward<Key>(key));
  }

  /// Adds the conditions and writes of `other` behind those of this one.
  Batch& append(Batch other);

  [[nodiscard]] const std::vector<Condition>& conditions() const noexcept { return conditions_; }
  [[nodiscard]] const std::vector<Write>& writes() const noexcept { return writes_; }
  [[nodiscard]] std::size_t size() const noexcept { return conditions_.size() + writes_.size(); }
  /// Of all keys and values.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// The writes, moved out.
  [[nodiscard]] std::vector<Write> take_writes() && noexcept { return std::move(writes_); }

 private:
  Batch& put_owned(std::string key, std::string value, bool is_new = false);
  Batch& erase_owned(std::string key);
  Batch& add_condition(Kind kind, std::string_view key, Version version);

  std::vector<Condition> conditions_;
  std::vector<Write> writes_;
  std::size_t bytes_ = 0;
};

}  // namespace holdfast
