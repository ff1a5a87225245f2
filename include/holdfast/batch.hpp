// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/detail/batch_view.hpp>

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
/// later one counts. Keys and values are bytes, copied at the call, also from this same batch.
class Batch {
 public:
  enum class Kind : std::uint8_t { kAbsent, kNew, kVersion, kGuard };
  /// As the batch has it: a view, as long as the batch is not changed, moved from or destroyed.
  struct Condition {
    Kind kind;
    std::string_view key;
    Version version = 0;
  };
  /// Likewise.
  struct Write {
    std::string_view key;
    std::optional<std::string_view> value;  ///< Nothing: the key is erased.
    bool is_new = false;                    ///< It was put as such.
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
  /// The same for a key that does not exist, which is not checked: such as one with an id that
  /// nobody else has. If it is erased again before it was written, it need not be written at all.
  Batch& put_new(std::string_view key, std::string_view value);
  /// These take the value from `append`, which adds its bytes to the end of the string that it is
  /// given, leaves alone what is there, and does not use the batch. If it throws, nothing is put.
  template <std::invocable<std::string&> Append>
  Batch& put_with(std::string_view key, const Append& append) {
    return write_with(key, Action::kPut, append);
  }
  template <std::invocable<std::string&> Append>
  Batch& put_new_with(std::string_view key, const Append& append) {
    return write_with(key, Action::kPutNew, append);
  }
  /// Erasing a key that does not exist is no error.
  Batch& erase(std::string_view key);

  /// Adds the conditions and writes of `other` behind those of this one.
  Batch& append(Batch other);

  /// Ranges with random access, in the order in which they were added. They and their elements are
  /// views, as long as the batch is not changed, moved from or destroyed.
  [[nodiscard]] auto conditions() const noexcept { return view<Condition>(conditions_); }
  [[nodiscard]] auto writes() const noexcept { return view<Write>(writes_); }
  [[nodiscard]] std::size_t size() const noexcept { return conditions_.size() + writes_.size(); }
  /// Of all keys and values.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.size(); }

 private:
  enum class Action : std::uint8_t { kPut, kPutNew, kErase };
  struct ConditionRecord {
    std::size_t key_at;
    std::size_t key_size;
    Version version;
    Kind kind;
    [[nodiscard]] Condition in(const char* bytes) const noexcept {
      return {kind, {bytes + key_at, key_size}, version};
    }
  };
  struct WriteRecord {
    std::size_t key_at;
    std::size_t key_size;
    std::size_t value_size;  // The value lies behind the key.
    Action action;
    [[nodiscard]] Write in(const char* bytes) const noexcept {
      const std::string_view key(bytes + key_at, key_size);
      if (action == Action::kErase) {
        return {key, std::nullopt};
      }
      return {key, std::string_view(key.data() + key.size(), value_size),
              action == Action::kPutNew};
    }
  };

  template <class Element, class Record>
  [[nodiscard]] detail::BatchView<Record, Element> view(
      const std::vector<Record>& records) const noexcept {
    return {records.data(), records.size(), bytes_.data()};
  }
  Batch& add_condition(Kind kind, std::string_view key, Version version);
  Batch& add_write(std::string_view key, std::string_view value, Action action);
  template <class Append>
  Batch& write_with(std::string_view key, Action action, const Append& append) {
    const std::size_t key_at = add_bytes(key, {});
    try {
      append(bytes_);
      return add_write_at(key_at, key.size(), action);
    } catch (...) {
      bytes_.resize(key_at);
      throw;
    }
  }
  /// Of a write whose bytes are there, from `key_at` to the end.
  Batch& add_write_at(std::size_t key_at, std::size_t key_size, Action action);
  /// Returns where they are.
  std::size_t add_bytes(std::string_view key, std::string_view value);

  std::string bytes_;  // Of all keys and values.
  std::vector<ConditionRecord> conditions_;
  std::vector<WriteRecord> writes_;
};

}  // namespace holdfast
