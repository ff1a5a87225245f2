// SPDX-License-Identifier: Apache-2.0
#include "raw_terminal.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

namespace holdfast::cli {

namespace {

// The second screen, so that what was there before comes back; no cursor.
constexpr std::string_view kBegin = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kEnd = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H";
constexpr std::string_view kClearRestOfLine = "\x1b[K";
constexpr std::string_view kClearRest = "\x1b[J";

}  // namespace

RawTerminal::RawTerminal(Terminal& terminal, int input) : terminal_(terminal), input_(input) {
  if (tcgetattr(input_, &before_) != 0) {
    throw std::system_error(errno, std::generic_category(), "tcgetattr");
  }
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Stopped, it would leave the terminal as it is now.
  if (tcsetattr(input_, TCSANOW, &raw) != 0) {
    throw std::system_error(errno, std::generic_category(), "tcsetattr");
  }
  terminal_.draw(kBegin);
}

RawTerminal::~RawTerminal() {
  terminal_.draw(kEnd);
  tcsetattr(input_, TCSANOW, &before_);
}

void RawTerminal::draw(const std::vector<std::string>& lines) {
  std::string bytes(kHome);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    bytes.append(i == 0 ? "" : "\r\n").append(lines[i]).append(kClearRestOfLine);
  }
  terminal_.draw(bytes.append(kClearRest));
}

}  // namespace holdfast::cli
