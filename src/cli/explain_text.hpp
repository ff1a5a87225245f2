// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "terminal.hpp"
#include "wait_chain.hpp"
#include "waits.hpp"

namespace holdfast::cli {

// What `holdfast explain` says of locks and of those who hold them or wait.

/// "for 3m, with fence 7, reason: nightly; its lease ends in 28s unless it is renewed".
[[nodiscard]] std::string hold_text(const GateHolderInfo& holder, StoreTime now);
/// ", reason: nightly", or nothing.
[[nodiscard]] std::string reason_text(const std::string& reason);
/// What lets it in, and when at the latest.
[[nodiscard]] std::string outlook_text(const Locks& locks, const Wait& wait);

void print_sentences(Terminal& terminal, const Sentences& sentences);

}  // namespace holdfast::cli
