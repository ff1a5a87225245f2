// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/store.hpp>

#include "connection.hpp"
#include "database.hpp"

namespace holdfast::detail {

/// A connection that reads.
class Reader {
 public:
  explicit Reader(const DatabaseFile& file);

  [[nodiscard]] std::optional<Entry> get(std::string_view key);
  [[nodiscard]] Page scan(std::string_view prefix, std::string_view after, std::size_t limit);
  [[nodiscard]] std::int64_t sequence();

  /// From here to `release`, everything is read as of now.
  void pin();
  void release() noexcept;

  [[nodiscard]] Connection& connection() noexcept { return *connection_; }

 private:
  std::unique_ptr<Connection> connection_;
  Statement get_;
  Statement scan_;
  Statement scan_to_the_end_;
  Statement sequence_;
  Statement begin_;
  Statement end_;
};

/// Readers for as many threads as read at a time.
class ReaderPool {
 public:
  explicit ReaderPool(DatabaseFile file) : file_(std::move(file)) {}

  /// A reader that returns to the pool.
  class Lent {
   public:
    Lent(ReaderPool& pool, std::unique_ptr<Reader> reader) noexcept
        : pool_(&pool), reader_(std::move(reader)) {}
    Lent(Lent&&) noexcept = default;
    Lent& operator=(Lent&&) = delete;
    ~Lent();
    Reader* operator->() const noexcept { return reader_.get(); }

   private:
    ReaderPool* pool_;
    std::unique_ptr<Reader> reader_;
  };
  [[nodiscard]] Lent lend();
  void clear() noexcept;

 private:
  static constexpr std::size_t kIdleMax = 4;

  DatabaseFile file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;
};

}  // namespace holdfast::detail
