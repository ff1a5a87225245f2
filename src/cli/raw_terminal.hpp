// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

#include "terminal.hpp"
#include "top_view.hpp"

namespace holdfast::cli {

/// Has the whole screen of a terminal to draw on, and gets keys as they are pressed: as long as it
/// lives, whatever ends it. Ctrl-C is a signal still, Ctrl-Z is none.
class RawTerminal {
 public:
  /// Draws on `terminal`, reads from `input`. Throws `std::system_error` if that is no terminal.
  RawTerminal(Terminal& terminal, int input);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  /// All is as it was before.
  ~RawTerminal();

  void draw(const std::vector<std::string>& lines);

 private:
  Terminal& terminal_;
  int input_;
  termios before_{};
};

}  // namespace holdfast::cli
