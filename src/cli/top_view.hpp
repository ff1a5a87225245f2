// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lock_facts.hpp"
#include "table.hpp"

namespace holdfast::cli {

enum class Key : std::uint8_t { kNone, kUp, kDown, kPageUp, kPageDown, kEnter, kBack, kQuit };

/// The first key in `bytes`, which is not empty; takes its bytes away. Half a key is none.
[[nodiscard]] Key take_key(std::string_view& bytes);

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};

/// The locks in a table, with their ages.
[[nodiscard]] std::vector<Row> top_rows(const Locks& locks);

/// What `holdfast top` shows: a list with one lock selected, or the page of one. Knows no terminal.
class TopView {
 public:
  explicit TopView(std::string url) : url_(std::move(url)) {}

  /// The locks as they are now.
  void show(Locks locks);
  /// Shown in the last line until there is another one, or none.
  void complain(std::string text) { complaint_ = std::move(text); }
  /// False: it was the key to end with.
  bool press(Key key, ScreenSize size);
  /// As many lines as there are rows, none longer than the columns.
  [[nodiscard]] std::vector<std::string> lines(ScreenSize size);

 private:
  [[nodiscard]] std::size_t selected_index() const;
  [[nodiscard]] const GateInfo* opened() const;
  void move(std::ptrdiff_t by);
  [[nodiscard]] std::vector<std::string> list_lines() const;
  [[nodiscard]] std::vector<std::string> page_lines(const GateInfo& gate) const;

  std::string url_;
  Locks locks_;
  std::string complaint_;
  std::string selected_;  // By name, so that it stays when others come and go.
  bool is_open_ = false;
  std::size_t first_ = 0;  // Of the lines below the heading.
};

}  // namespace holdfast::cli
