// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <fmt/core.h>

#include "escape.hpp"
#include "terminal.hpp"

namespace holdfast::cli {

/// What is said on standard error.
class Voice {
 public:
  Voice(Terminal& terminal, bool verbose) : terminal_(terminal), verbose_(verbose) {}
  [[nodiscard]] bool verbose() const noexcept { return verbose_; }
  void tell(std::string_view text) const {
    if (verbose_) {
      terminal_.line(terminal_.paint(Colour::kDim, fmt::format("holdfast: {}", one_line(text))));
    }
  }
  void warn(std::string_view text) const {
    terminal_.line(terminal_.paint(Colour::kRed, fmt::format("holdfast: {}", one_line(text))));
  }

 private:
  Terminal& terminal_;
  bool verbose_;
};

}  // namespace holdfast::cli
