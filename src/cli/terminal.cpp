// SPDX-License-Identifier: Apache-2.0
#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace holdfast::cli {

namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it here.
  return value == nullptr ? std::string_view{} : value;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (!value.empty()) {
      return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
    }
  }
  return false;
}

constexpr std::string_view code_of(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kBold:
      return "\x1b[1m";
    case Colour::kDim:
      return "\x1b[2m";
  }
  return {};
}

}  // namespace

TerminalTraits traits_of(int fd) {
  TerminalTraits traits;
  const std::string_view term = environment("TERM");
  traits.live = isatty(fd) == 1 && !term.empty() && term != "dumb";
  traits.colour = traits.live && environment("NO_COLOR").empty();
  traits.utf8 = traits.live && locale_is_utf8();
  return traits;
}

Terminal::Terminal(int fd, TerminalTraits traits, std::function<void()> on_lost)
    : fd_(fd), traits_(traits), on_lost_(std::move(on_lost)) {}

Terminal::~Terminal() { status({}); }

std::size_t Terminal::columns() const noexcept {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::size_t Terminal::rows() const noexcept {
  constexpr std::size_t kUsual = 24;
  winsize size{};
  return ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : kUsual;
}

std::string Terminal::paint(Colour colour, std::string_view text) const {
  if (!traits_.colour) {
    return std::string(text);
  }
  return std::string(code_of(colour)) + std::string(text) + "\x1b[0m";
}

void Terminal::line(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  std::string bytes;
  if (!status_.empty()) {
    bytes += kClearLine;
  }
  bytes += text;
  bytes += '\n';
  bytes += status_;
  write(bytes);
}

void Terminal::status(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (!traits_.live || status_ == text) {
    return;
  }
  status_ = text;
  write(std::string(kClearLine) + status_);
}

void Terminal::draw(std::string_view bytes) {
  const std::scoped_lock lock(mutex_);
  write(bytes);
}

void Terminal::write(std::string_view bytes) noexcept {
  while (!bytes.empty() && error_ == 0) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_ = errno;
      if (on_lost_) {
        on_lost_();
      }
    }
  }
}

}  // namespace holdfast::cli
