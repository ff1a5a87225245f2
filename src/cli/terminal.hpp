// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// What the output can show.
struct TerminalTraits {
  bool live = false;    ///< A line can be drawn again.
  bool colour = false;  ///< Never without `live`.
  bool utf8 = false;
};

/// By the kind of `fd` and by TERM, NO_COLOR and the locale.
[[nodiscard]] TerminalTraits traits_of(int fd);

enum class Colour { kGreen, kRed, kBold, kDim };

/// Lines, and below them one that is drawn again and again. Thread-safe. Nothing is buffered.
class Terminal {
 public:
  /// Calls `on_lost` once, when the output cannot be written; from then on nothing is written.
  Terminal(int fd, TerminalTraits traits, std::function<void()> on_lost = {});
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  /// Leaves no half-drawn line behind.
  ~Terminal();

  [[nodiscard]] const TerminalTraits& traits() const noexcept { return traits_; }
  /// How many letters fit on a line.
  [[nodiscard]] std::size_t columns() const noexcept;
  /// How many lines fit on the screen.
  [[nodiscard]] std::size_t rows() const noexcept;
  /// `text` in a colour, where there are colours.
  [[nodiscard]] std::string paint(Colour colour, std::string_view text) const;

  /// Prints `text`, which may have line breaks inside, and a line break.
  void line(std::string_view text);
  /// Draws the last line, which must fit; an empty one takes it away. Only when `live`.
  void status(std::string_view text);

  /// Writes these bytes, whatever they do to the terminal.
  void draw(std::string_view bytes);

  /// The `errno` of the write that failed, or 0.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  void write(std::string_view bytes) noexcept;

  int fd_;
  TerminalTraits traits_;
  std::function<void()> on_lost_;
  std::mutex mutex_;
  std::string status_;
  std::atomic<int> error_ = 0;
};

}  // namespace holdfast::cli
