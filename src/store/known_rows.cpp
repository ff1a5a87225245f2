// SPDX-License-Identifier: Apache-2.0
#include "known_rows.hpp"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/fetch_ahead.hpp"

namespace holdfast::detail {

// --- Lists of rows -------------------------------------------------------------------------------

void RowList::push(Row& row) noexcept {
  row.next_ = nullptr;
  row.previous_ = last_;
  (first_ == nullptr ? first_ : last_->next_) = &row;
  last_ = &row;
  ++size_;
  bytes_ += bytes_of(row);
}

void RowList::push_front(Row& row) noexcept {
  row.next_ = first_;
  (first_ == nullptr ? last_ : first_->previous_) = &row;
  first_ = &row;
  ++size_;
  bytes_ += bytes_of(row);
}

Row& RowList::pop() noexcept {
  Row& row = *first_;
  // The oldest ones are in no cache of the processor any more, and come one after the other.
  if (size_ > 2) {
    const Row& next = *row.next_;
    fetch_ahead(next.key.data());
    fetch_ahead(next.value_.data());
    fetch_ahead(next.next_, sizeof(Row));
  }
  remove(row);
  return row;
}

void RowList::remove(Row& row) noexcept {
  (&row == first_ ? first_ : row.previous_->next_) = row.next_;
  (&row == last_ ? last_ : row.next_->previous_) = row.previous_;
  --size_;
  bytes_ -= bytes_of(row);
}

void RowList::append(RowList& other) noexcept {
  if (other.empty()) {
    return;
  }
  (first_ == nullptr ? first_ : last_->next_) = other.first_;
  other.first_->previous_ = last_;
  last_ = other.last_;
  size_ += other.size_;
  bytes_ += other.bytes_;
  other = {};
}

// --- What is known -------------------------------------------------------------------------------

KnownRows::HashedKey::HashedKey(std::string_view of) noexcept
    : key(of), hash(XXH3_64bits(of.data(), of.size())) {}

KnownRows::~KnownRows() {
  for (RowList* rows : {&gathered_, &kept_back_, &taken_, &on_disk_, &spare_}) {
    destroy(*rows);
  }
}

const Row* KnownRows::find_row(std::string_view key) {
  const auto place = index_.find(HashedKey(key));
  if (place == index_.end()) {
    return nullptr;
  }
  place->row->used_ = true;
  return place->row;
}

const Row* KnownRows::find(std::string_view key) {
  static const Row kAbsent{};
  if (const Row* const row = find_row(key)) {
    return row;
  }
  return gap_of(key) == gaps_.end() ? nullptr : &kAbsent;
}

void KnownRows::gather(std::string_view key, const std::optional<std::string_view>& value,
                       Version version, OnDisk on_disk) {
  const HashedKey hashed(key);
  const auto place = index_.find(hashed);
  RowList* const same = place != index_.end() ? list_to_be_written(*place->row) : nullptr;
  if (same != nullptr) {
    Row& row = *place->row;
    if (!value && row.on_disk_ == OnDisk::kNothing && !row.supersedes_) {
      same->remove(row);  // It came and went, and need not be known.
      index_.erase(place);
      recycle(row);
      return;
    }
    same->bytes_ -= RowList::bytes_of(row);
    set(row, value, version);
    same->bytes_ += RowList::bytes_of(row);
    return;
  }
  const bool is_new = on_disk == OnDisk::kNothing;
  Row& row = make(hashed, value, version);
  row.gathering_ = is_new ? transaction_ : gathering_;
  row.on_disk_ = on_disk;
  (is_new ? kept_back_ : gathered_).push(row);
  has_kept_back_ = has_kept_back_ || is_new;
  if (place == index_.end()) {
    index_.insert({&row});
  } else {
    row.supersedes_ = true;
    std::exchange(place->row, &row)->superseded_ = true;
  }
}

void KnownRows::check_when_written(std::string_view key) {
  const auto place = index_.find(HashedKey(key));
  if (place != index_.end() && place->row->on_disk_ == OnDisk::kUnknown) {
    place->row->on_disk_ = OnDisk::kNothingToBeChecked;
  }
}

RowList* KnownRows::list_to_be_written(const Row& row) noexcept {
  if (row.on_disk_ == OnDisk::kNothing) {
    return row.gathering_ == transaction_ ? &kept_back_ : nullptr;
  }
  return row.gathering_ == gathering_ ? &gathered_ : nullptr;
}

RowList KnownRows::take() noexcept {
  ++gathering_;
  RowList taken = gathered_;
  taken_.append(gathered_);
  return taken;
}

RowList KnownRows::take_all() noexcept {
  ++transaction_;
  has_kept_back_ = false;
  kept_back_.append(gathered_);
  std::swap(kept_back_, gathered_);
  return take();
}

void KnownRows::learn(std::string_view key, const std::optional<std::string_view>& value,
                      Version version) {
  Row& row = make(HashedKey(key), value, version);
  on_disk_.push(row);
  index_.insert({&row});
}

void KnownRows::learn_gap(std::string first, std::optional<std::string> end) {
  // Gaps do not overlap, so that to shorten one is enough when a row in it is forgotten.
  const auto behind = gaps_.upper_bound(first);
  if (behind != gaps_.end() && (!end || behind->first < *end)) {
    end = behind->first;
  }
  gaps_.insert_or_assign(std::move(first), std::move(end));
}

KnownRows::Gaps::iterator KnownRows::gap_of(std::string_view key) {
  auto gap = gaps_.upper_bound(key);
  if (gap == gaps_.begin()) {
    return gaps_.end();
  }
  --gap;
  return !gap->second || key < *gap->second ? gap : gaps_.end();
}

Row& KnownRows::make(const HashedKey& key, const std::optional<std::string_view>& value,
                     Version version) {
  if (spare_.empty()) {
    // A list owns it from here to `destroy`.
    spare_.push(*new Row);  // NOLINT(cppcoreguidelines-owning-memory)
  }
  Row& row = spare_.pop();
  if (!spare_.empty()) {
    // Its bytes are about to be written over.
    constexpr std::size_t kMostValues = 384;
    const std::string& next = spare_.first_->value_;
    fetch_ahead(next.data(), std::min(next.capacity(), kMostValues));
  }
  assign(row.key, key.key);
  row.hash_ = key.hash;
  set(row, value, version);
  row.gathering_ = 0;
  row.supersedes_ = false;
  row.superseded_ = false;
  row.on_disk_ = OnDisk::kUnknown;
  row.used_ = false;
  return row;
}

void KnownRows::set(Row& row, const std::optional<std::string_view>& value, Version version) const {
  assign(row.value_, value.value_or(std::string_view()));
  row.exists_ = value.has_value();
  row.version = version;
}

void KnownRows::assign(std::string& to, std::string_view bytes) const {
  if (to.capacity() > limits_.spare_bytes && bytes.size() < to.capacity() / 2) {
    std::string().swap(to);
  }
  to.clear();
  to.append(bytes);
}

void KnownRows::trim(std::size_t steps) {
  for (; steps > 0 && (on_disk_.size() > limits_.rows || on_disk_.bytes() > limits_.bytes);
       --steps) {
    forget_oldest();
  }
  if (gaps_.size() > limits_.gaps) {
    gaps_.clear();
  }
}

void KnownRows::forget_oldest() {
  Row& row = on_disk_.pop();
  if (row.superseded_) {
    recycle(row);
    return;
  }
  if (std::exchange(row.used_, false)) {
    on_disk_.push(row);
    return;
  }
  index_.erase(Place{&row});
  if (const auto gap = gap_of(row.key); row.exists() && gap != gaps_.end()) {
    // What lies behind it stays a gap: that is where keys go that are made in their order.
    auto rest = gaps_.extract(gap);
    rest.key().assign(row.key).push_back('\0');
    gaps_.insert(std::move(rest));
  }
  recycle(row);
}

void KnownRows::recycle(Row& row) noexcept {
  if (spare_.size() >= limits_.spare_rows) {
    delete &row;  // NOLINT(cppcoreguidelines-owning-memory)
    return;
  }
  for (std::string* const text : {&row.key, &row.value_}) {
    if (text->capacity() > limits_.spare_bytes) {
      std::string().swap(*text);
    }
  }
  spare_.push_front(row);  // The one that was used last is in the processor's caches.
}

void KnownRows::clear() noexcept {
  index_.clear();
  gaps_.clear();
  has_kept_back_ = false;
  for (RowList* rows : {&gathered_, &kept_back_, &taken_, &on_disk_}) {
    destroy(*rows);
  }
}

void KnownRows::destroy(RowList& rows) noexcept {
  while (!rows.empty()) {
    delete &rows.pop();  // NOLINT(cppcoreguidelines-owning-memory)
  }
}

}  // namespace holdfast::detail
