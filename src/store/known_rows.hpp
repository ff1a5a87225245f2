// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/batch.hpp>

namespace holdfast::detail {

/// What the disk has of a key that is gathered.
enum class OnDisk : std::uint8_t {
  kUnknown,
  kNothing,
  kNothingToBeChecked,  ///< By whoever writes it.
};

/// What is known of a key.
struct Row {
  std::string key;
  Version version = 0;  ///< Of the commit that made it so; 0 if that is not known.

  [[nodiscard]] bool exists() const noexcept { return exists_; }
  /// Nothing: it does not exist.
  [[nodiscard]] std::optional<std::string_view> value() const noexcept {
    return exists_ ? std::optional<std::string_view>(value_) : std::nullopt;
  }
  /// What its key and its value have memory for.
  [[nodiscard]] std::size_t capacity() const noexcept { return key.capacity() + value_.capacity(); }
  /// Otherwise it came and went between two writes: the disk need not hear of it.
  [[nodiscard]] bool is_for_the_disk() const noexcept {
    return exists_ || on_disk_ != OnDisk::kNothing;
  }
  [[nodiscard]] bool must_be_new() const noexcept {
    return exists_ && on_disk_ == OnDisk::kNothingToBeChecked;
  }

 private:
  friend class RowList;
  friend class KnownRows;
  std::string value_;  // Empty if it does not exist.
  bool exists_ = false;
  Row* next_ = nullptr;
  Row* previous_ = nullptr;            // Not of the first one.
  std::size_t hash_ = 0;               // Of the key, which is in no cache when it is forgotten.
  std::uint64_t gathering_ = 0;        // In which it was gathered; 0: it was read from the disk.
  bool supersedes_ = false;            // There was an older row of this key when it was made.
  bool superseded_ = false;            // There is a younger row of this key.
  OnDisk on_disk_ = OnDisk::kUnknown;  // When it was gathered.
  bool used_ = false;                  // Since it was last considered whether to forget it.
};

/// Rows in the order in which they came, linked through themselves.
class RowList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Of keys and values.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  template <std::invocable<const Row&> Visit>
  void for_each(const Visit& visit) const {
    for (const Row* row = first_; row != nullptr; row = row == last_ ? nullptr : row->next_) {
      visit(*row);
    }
  }

 private:
  friend class KnownRows;
  [[nodiscard]] static std::size_t bytes_of(const Row& row) noexcept {
    return row.key.size() + row.value_.size();
  }
  void push(Row& row) noexcept;
  void push_front(Row& row) noexcept;
  Row& pop() noexcept;
  void remove(Row& row) noexcept;
  void append(RowList& other) noexcept;

  Row* first_ = nullptr;
  Row* last_ = nullptr;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
};

/// Of what is on the disk. What a batch is on condition of should be among that, or it has to wait
/// until it was read: the heads of some thousand gates that take turns, and the gaps behind keys
/// that are made in their order. More of it is in none of the processor's caches.
struct KnownRowsLimits {
  std::size_t rows = 2'048;
  std::size_t bytes = std::size_t{16} << 20;
  std::size_t gaps = 4'096;
  /// Of those that are forgotten, so many are kept for rows to come, so that these need not ask for
  /// memory; and of a key or a value only this much of it.
  std::size_t spare_rows = 16'384;
  std::size_t spare_bytes = 1'024;
};

/// What batches have written, until it is on the disk; and what the disk has, as far as it need not
/// be read again: what was used lately, in bounded memory.
///
/// A row that a batch writes is gathered first, then taken to be written, then on the disk. Rows
/// that were taken do not change any more; a younger one takes their place. Those that are new are
/// kept back, and taken last of a transaction: some are gone by then, and were there for the next
/// batch only.
class KnownRows {
 public:
  explicit KnownRows(const KnownRowsLimits& limits = {}) noexcept : limits_(limits) {}
  KnownRows(const KnownRows&) = delete;
  KnownRows& operator=(const KnownRows&) = delete;
  ~KnownRows();

  /// The youngest row of `key`, one without a value if it is known not to exist, or null.
  [[nodiscard]] const Row* find(std::string_view key);
  /// The same, but null also if it is not there because it lies in a gap: that is quicker to know.
  [[nodiscard]] const Row* find_row(std::string_view key);

  void gather(std::string_view key, const std::optional<std::string_view>& value, Version version,
              OnDisk on_disk = OnDisk::kUnknown);
  /// After a batch was gathered, for a key of which no row was found before: if it wrote one, the
  /// disk has none, which is to be checked by whoever writes it. Not if it was put as a new one.
  void check_when_written(std::string_view key);
  [[nodiscard]] const RowList& gathered() const noexcept { return gathered_; }
  /// What was gathered, and is left by `take`, as it is new.
  [[nodiscard]] const RowList& kept_back() const noexcept { return kept_back_; }
  /// Some were, though they may be gone by now. Then all that was gathered has to be taken: whoever
  /// made them go belongs to the same transaction as whoever wrote them.
  [[nodiscard]] bool has_kept_back() const noexcept { return has_kept_back_; }
  /// What is on the disk, as far as it is kept.
  [[nodiscard]] const RowList& kept() const noexcept { return on_disk_; }
  /// What was forgotten, to be written over.
  [[nodiscard]] const RowList& spare() const noexcept { return spare_; }
  /// What was gathered, but for what is kept back. May be read without a lock until `wrote`.
  RowList take() noexcept;
  /// All that was gathered. May be read likewise.
  RowList take_all() noexcept;
  /// All that was taken since the last `wrote`. May be read likewise by whoever takes.
  [[nodiscard]] const RowList& taken() const noexcept { return taken_; }
  void wrote() noexcept { on_disk_.append(taken_); }

  /// What the disk has of a key that was not found.
  void learn(std::string_view key, const std::optional<std::string_view>& value, Version version);
  /// It has no row from that key up to, and without, `end`; nothing: to the very end.
  void learn_gap(std::string first, std::optional<std::string> end);

  /// Forgets some of what is too much, in a time that is bounded by `steps`. Until then, all that
  /// was learned is found.
  void trim(std::size_t steps);
  /// Forgets everything, also what is not on the disk.
  void clear() noexcept;

 private:
  /// A place in the index. Which row of its key is there may change.
  struct Place {
    mutable Row* row;
  };
  struct HashedKey {
    explicit HashedKey(std::string_view of) noexcept;
    std::string_view key;
    std::size_t hash;
  };
  // NOLINTBEGIN(readability-identifier-naming): the set looks for members of these names.
  struct Hash {
    using is_transparent = void;
    using is_avalanching = void;
    std::size_t operator()(const HashedKey& key) const noexcept { return key.hash; }
    std::size_t operator()(const Place& place) const noexcept { return place.row->hash_; }
  };
  struct SameKey {
    using is_transparent = void;
    static std::string_view key(const HashedKey& key) noexcept { return key.key; }
    static std::string_view key(const Place& place) noexcept { return place.row->key; }
    bool operator()(const auto& left, const auto& right) const noexcept {
      return key(left) == key(right);
    }
    bool operator()(const Place& left, const Place& right) const noexcept {
      return left.row == right.row || key(left) == key(right);
    }
  };
  // NOLINTEND(readability-identifier-naming)
  // From the first key to the end: no key of one is on the disk but those of known rows, which are
  // looked for first.
  using Gaps = std::map<std::string, std::optional<std::string>, std::less<>>;

  [[nodiscard]] Gaps::iterator gap_of(std::string_view key);
  /// That a write may still change; null: it has been taken, or is on the disk.
  [[nodiscard]] RowList* list_to_be_written(const Row& row) noexcept;
  Row& make(const HashedKey& key, const std::optional<std::string_view>& value, Version version);
  /// To memory of its own, which is given back if it is large and most of it is not used any more.
  void assign(std::string& to, std::string_view bytes) const;
  void set(Row& row, const std::optional<std::string_view>& value, Version version) const;
  void forget_oldest();
  void recycle(Row& row) noexcept;
  static void destroy(RowList& rows) noexcept;

  const KnownRowsLimits limits_;
  boost::unordered_flat_set<Place, Hash, SameKey> index_;  // The youngest of each key.
  RowList gathered_;
  RowList kept_back_;
  bool has_kept_back_ = false;
  RowList taken_;
  RowList on_disk_;
  std::uint64_t gathering_ = 1;    // Counts them: each ends with `take`.
  std::uint64_t transaction_ = 1;  // For what is kept back: each ends with `take_all`.
  Gaps gaps_;
  RowList spare_;
};

}  // namespace holdfast::detail
