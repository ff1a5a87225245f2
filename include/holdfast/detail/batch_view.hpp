// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <ranges>

namespace holdfast::detail {

/// The records of a batch as what they stand for: a range with random access whose elements are
/// values, made when they are looked at. A `Record` tells where its bytes are by
/// `Element in(const char* bytes) const`. Points into the batch.
template <class Record, class Element>
class BatchView {
 public:
  class Iterator {
   public:
    // NOLINTBEGIN(readability-identifier-naming): the standard library looks for these names.
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // There is no element to refer to.
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using reference = Element;
    using pointer = void;
    // NOLINTEND(readability-identifier-naming)

    Iterator() = default;
    Iterator(const Record* record, const char* bytes) noexcept : record_(record), bytes_(bytes) {}

    [[nodiscard]] Element operator*() const noexcept { return record_->in(bytes_); }
    [[nodiscard]] Element operator[](difference_type distance) const noexcept {
      return *(*this + distance);
    }
    Iterator& operator++() noexcept { return *this += 1; }
    Iterator& operator--() noexcept { return *this -= 1; }
    Iterator operator++(int) noexcept {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator operator--(int) noexcept {
      const Iterator before = *this;
      --*this;
      return before;
    }
    Iterator& operator+=(difference_type distance) noexcept {
      record_ += distance;
      return *this;
    }
    Iterator& operator-=(difference_type distance) noexcept {
      record_ -= distance;
      return *this;
    }
    friend Iterator operator+(Iterator from, difference_type distance) noexcept {
      return from += distance;
    }
    friend Iterator operator+(difference_type distance, Iterator from) noexcept {
      return from += distance;
    }
    friend Iterator operator-(Iterator from, difference_type distance) noexcept {
      return from -= distance;
    }
    friend difference_type operator-(const Iterator& to, const Iterator& from) noexcept {
      return to.record_ - from.record_;
    }
    friend bool operator==(const Iterator& left, const Iterator& right) noexcept {
      return left.record_ == right.record_;
    }
    friend auto operator<=>(const Iterator& left, const Iterator& right) noexcept {
      return left.record_ <=> right.record_;
    }

   private:
    const Record* record_ = nullptr;
    const char* bytes_ = nullptr;
  };

  BatchView(const Record* records, std::size_t size, const char* bytes) noexcept
      : records_(records), size_(size), bytes_(bytes) {}

  [[nodiscard]] Iterator begin() const noexcept { return {records_, bytes_}; }
  [[nodiscard]] Iterator end() const noexcept { return {records_ + size_, bytes_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Element operator[](std::size_t index) const noexcept {
    return records_[index].in(bytes_);
  }

 private:
  const Record* records_;
  std::size_t size_;
  const char* bytes_;
};

}  // namespace holdfast::detail
// NOLINTBEGIN(readability-identifier-naming): as the standard library calls them.
template <class Record, class Element>
inline constexpr bool
    std::ranges::enable_borrowed_range<holdfast::detail::BatchView<Record, Element>> = true;
template <class Record, class Element>
inline constexpr bool std::ranges::enable_view<holdfast::detail::BatchView<Record, Element>> = true;
// NOLINTEND(readability-identifier-naming)
