// SPDX-License-Identifier: Apache-2.0
#include "reader.hpp"

#include <algorithm>
#include <limits>

#include "store/backend.hpp"

namespace holdfast::detail {

namespace {

/// The first string that sorts behind all that begin with `prefix`; nothing if there is none.
std::optional<std::string> behind(std::string_view prefix) {
  const auto last = prefix.find_last_not_of('\xff');
  if (last == std::string_view::npos) {
    return std::nullopt;
  }
  std::string next(prefix.substr(0, last + 1));
  next.back() = static_cast<char>(static_cast<unsigned char>(next.back()) + 1);
  return next;
}

/// The first key that is in the range.
std::string first_in_range(std::string_view prefix, std::string_view after) {
  return after < prefix ? std::string(prefix) : std::string(after) + '\0';
}

}  // namespace

Reader::Reader(const DatabaseFile& file)
    : connection_(connect(file)),
      get_(*connection_, "SELECT version, value FROM entries WHERE key = ?1"),
      scan_(*connection_,
            "SELECT key, version, value FROM entries WHERE key >= ?1 AND key < ?3 "
            "ORDER BY key LIMIT ?2"),
      scan_to_the_end_(*connection_,
                       "SELECT key, version, value FROM entries WHERE key >= ?1 "
                       "ORDER BY key LIMIT ?2"),
      sequence_(*connection_, "SELECT sequence FROM state"),
      begin_(*connection_, "BEGIN"),
      end_(*connection_, "COMMIT") {
  connection_->run("PRAGMA query_only = ON");
}

std::optional<Entry> Reader::get(std::string_view key) {
  const ResetAfterUse reset(get_);
  if (!get_.bind(1, key).step()) {
    return std::nullopt;
  }
  return Entry{std::string(key), std::string(get_.bytes(1)), static_cast<Version>(get_.number(0))};
}

Page Reader::scan(std::string_view prefix, std::string_view after, std::size_t limit) {
  const std::string first = first_in_range(prefix, after);
  const std::optional<std::string> end = behind(prefix);
  Statement& statement = end ? scan_ : scan_to_the_end_;
  const ResetAfterUse reset(statement);
  const auto most = std::min<std::size_t>(limit, std::numeric_limits<std::int32_t>::max());
  // One more than asked for tells whether there are more.
  statement.bind(1, first).bind(2, static_cast<std::int64_t>(most) + 1);
  if (end) {
    statement.bind(3, *end);
  }
  Page page;
  std::size_t bytes = 0;
  while (statement.step()) {
    if (page.entries.size() == most || bytes > kPageBytesMax) {
      page.more = true;
      break;
    }
    Entry entry{std::string(statement.bytes(0)), std::string(statement.bytes(2)),
                static_cast<Version>(statement.number(1))};
    bytes += entry.key.size() + entry.value.size();
    page.entries.push_back(std::move(entry));
  }
  return page;
}

std::int64_t Reader::sequence() {
  const ResetAfterUse reset(sequence_);
  return sequence_.step() ? sequence_.number(0) : 0;
}

void Reader::pin() {
  begin_.run();
  // The moment is that of the first read.
  static_cast<void>(sequence());
}

void Reader::release() noexcept {
  if (sqlite3_get_autocommit(connection_->handle()) == 0) {
    sqlite3_exec(connection_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

ReaderPool::Lent::~Lent() {
  if (reader_) {
    reader_->release();
    const std::lock_guard lock(pool_->mutex_);
    if (pool_->idle_.size() < kIdleMax) {
      pool_->idle_.push_back(std::move(reader_));
    }
  }
}

ReaderPool::Lent ReaderPool::lend() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Reader> reader = std::move(idle_.back());
      idle_.pop_back();
      return {*this, std::move(reader)};
    }
  }
  return {*this, std::make_unique<Reader>(file_)};
}

void ReaderPool::clear() noexcept {
  const std::lock_guard lock(mutex_);
  idle_.clear();
}

}  // namespace holdfast::detail
