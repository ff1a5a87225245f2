// SPDX-License-Identifier: Apache-2.0
#include "top_view.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_page.hpp"
#include "party.hpp"

namespace holdfast::cli {

namespace {

/// Above what can be scrolled: the title, an empty line, the heading. Below it: the keys.
constexpr std::size_t kLinesAbove = 3;
constexpr std::size_t kLinesBelow = 1;

std::size_t room_of(ScreenSize size) {
  constexpr std::size_t kFixed = kLinesAbove + kLinesBelow;
  return size.rows > kFixed ? size.rows - kFixed : 1;
}

/// As many letters as fit.
std::string fitted(const std::string& text, std::size_t columns) {
  if (letters_of(text) <= columns) {
    return text;
  }
  std::size_t letters = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0U) != 0x80U;
    if (begins && ++letters > columns) {
      break;
    }
    ++end;
  }
  return text.substr(0, end);
}

/// "2 of 4"; of readers and a writer, only how many.
std::string held_text(const GateInfo& gate) {
  return is_read_write(gate) ? std::to_string(held_of(gate))
                             : fmt::format("{} of {}", held_of(gate), gate.capacity);
}

std::string oldest_hold(const GateInfo& gate, StoreTime now) {
  Duration longest{};
  for (const GateHolderInfo& holder : gate.holders) {
    longest = std::max(longest, now - holder.granted_at);
  }
  return gate.holders.empty() ? "" : duration_text(longest);
}

std::string longest_wait(const GateInfo& gate, StoreTime now) {
  Duration longest{};
  for (const GateWaiterInfo& waiter : gate.waiters) {
    longest = std::max(longest, now - waiter.asked_at);
  }
  return gate.waiters.empty() ? "" : duration_text(longest);
}

std::string first_holder(const Locks& locks, const GateInfo& gate) {
  if (gate.holders.empty()) {
    return "";
  }
  const std::string name = short_name(party_of(locks, gate.holders.front()));
  return gate.holders.size() == 1 ? name : fmt::format("{} +{}", name, gate.holders.size() - 1);
}

std::string first_waiter(const Locks& locks, const GateInfo& gate) {
  return gate.waiters.empty() ? "" : short_name(party_of(locks, gate.waiters.front()));
}

struct KeyBytes {
  std::string_view bytes;
  Key key;
};

constexpr std::array kKeys{
    KeyBytes{"\x1b[A", Key::kUp},      KeyBytes{"\x1bOA", Key::kUp},
    KeyBytes{"\x1b[B", Key::kDown},    KeyBytes{"\x1bOB", Key::kDown},
    KeyBytes{"\x1b[5~", Key::kPageUp}, KeyBytes{"\x1b[6~", Key::kPageDown},
    KeyBytes{"k", Key::kUp},           KeyBytes{"j", Key::kDown},
    KeyBytes{"\r", Key::kEnter},       KeyBytes{"\n", Key::kEnter},
    KeyBytes{"q", Key::kQuit},         KeyBytes{"Q", Key::kQuit},
};

/// How many bytes a key of which nothing is known takes: all of a sequence, so that its letters are
/// not taken for keys.
std::size_t size_of_unknown(std::string_view bytes) {
  if (bytes.size() < 3 || bytes[0] != '\x1b' || (bytes[1] != '[' && bytes[1] != 'O')) {
    return 1;
  }
  const auto last =
      std::ranges::find_if(bytes.substr(2), [](char byte) { return byte >= '@' && byte <= '~'; });
  const auto end = static_cast<std::size_t>(last - bytes.begin());
  return std::min(end + 1, bytes.size());
}

}  // namespace

Key take_key(std::string_view& bytes) {
  for (const KeyBytes& one : kKeys) {
    if (bytes.starts_with(one.bytes)) {
      bytes.remove_prefix(one.bytes.size());
      return one.key;
    }
  }
  if (bytes == "\x1b" || bytes.starts_with("\x1b\x1b")) {
    bytes.remove_prefix(1);
    return Key::kBack;
  }
  bytes.remove_prefix(size_of_unknown(bytes));
  return Key::kNone;
}

std::vector<Row> top_rows(const Locks& locks) {
  std::vector<Row> rows{
      {"NAME", "STATE", "HELD", "WAITING", "HOLDER", "FOR", "FIRST WAITER", "FOR"}};
  for (const GateInfo& gate : locks.gates) {
    rows.push_back({one_line(gate.name), std::string(state_of(gate)), held_text(gate),
                    std::to_string(gate.waiter_count), first_holder(locks, gate),
                    oldest_hold(gate, locks.now), first_waiter(locks, gate),
                    longest_wait(gate, locks.now)});
  }
  return rows;
}

void TopView::show(Locks locks) {
  locks_ = std::move(locks);
  complaint_.clear();
  if (std::ranges::find(locks_.gates, selected_, &GateInfo::name) == locks_.gates.end()) {
    selected_ = locks_.gates.empty() ? "" : locks_.gates.front().name;
    is_open_ = false;
    first_ = 0;
  }
}

std::size_t TopView::selected_index() const {
  const auto found = std::ranges::find(locks_.gates, selected_, &GateInfo::name);
  return static_cast<std::size_t>(found - locks_.gates.begin());
}

const GateInfo* TopView::opened() const {
  return is_open_ && !locks_.gates.empty() ? &locks_.gates.at(selected_index()) : nullptr;
}

void TopView::move(std::ptrdiff_t by) {
  if (is_open_) {
    first_ = static_cast<std::size_t>(
        std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(first_) + by));
    return;
  }
  if (!locks_.gates.empty()) {
    const auto last = static_cast<std::ptrdiff_t>(locks_.gates.size()) - 1;
    const auto index = static_cast<std::ptrdiff_t>(selected_index());
    selected_ =
        locks_.gates[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(index + by, 0, last))]
            .name;
  }
}

bool TopView::press(Key key, ScreenSize size) {
  const auto page = static_cast<std::ptrdiff_t>(room_of(size));
  switch (key) {
    case Key::kQuit:
      return false;
    case Key::kUp:
      move(-1);
      break;
    case Key::kDown:
      move(1);
      break;
    case Key::kPageUp:
      move(-page);
      break;
    case Key::kPageDown:
      move(page);
      break;
    case Key::kEnter:
    case Key::kBack:
      is_open_ = key == Key::kEnter && !locks_.gates.empty();
      first_ = 0;
      break;
    case Key::kNone:
      break;
  }
  return true;
}

std::vector<std::string> TopView::list_lines() const {
  std::vector<std::string> lines = table_lines(top_rows(locks_), "  ");
  if (!locks_.gates.empty()) {
    lines.at(1 + selected_index()).front() = '>';
  }
  return lines;
}

std::vector<std::string> TopView::page_lines(const GateInfo& gate) const {
  std::vector<std::string> lines{fmt::format("{}: {}", one_line(gate.name), summary_of(gate))};
  for (const std::vector<Row>& rows : {holder_rows(locks_, gate), waiter_rows(locks_, gate)}) {
    if (rows.size() > 1) {
      lines.emplace_back();
      const std::vector<std::string> table = table_lines(rows);
      lines.insert(lines.end(), table.begin(), table.end());
    }
  }
  return lines;
}

std::vector<std::string> TopView::lines(ScreenSize size) {
  const std::size_t room = room_of(size);
  const GateInfo* gate = opened();
  std::vector<std::string> body = gate != nullptr ? page_lines(*gate) : list_lines();
  const std::size_t count = body.size() - 1;  // Its first line stays.
  if (gate == nullptr && !locks_.gates.empty()) {
    const std::size_t index = selected_index();
    first_ = std::clamp(first_, index + 1 - std::min(index + 1, room), index);
  }
  first_ = std::min(first_, count - std::min(count, room));
  std::vector<std::string> lines{
      fmt::format("holdfast top: {}, {} {}", one_line(url_), locks_.gates.size(),
                  locks_.gates.size() == 1 ? "lock" : "locks"),
      "", body.front()};
  for (std::size_t i = 0; i < room; ++i) {
    lines.push_back(first_ + i < count ? body[1 + first_ + i] : "");
  }
  lines.push_back(!complaint_.empty() ? complaint_
                  : gate != nullptr   ? "esc: back   up, down: scroll   q: quit"
                                      : "up, down: select   enter: open   q: quit");
  if (lines.size() > size.rows) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(size.rows));
  }
  for (std::string& line : lines) {
    line = fitted(line, size.columns);
  }
  return lines;
}

}  // namespace holdfast::cli
