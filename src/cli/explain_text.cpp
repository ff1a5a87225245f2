// SPDX-License-Identifier: Apache-2.0
#include "explain_text.hpp"

#include <fmt/core.h>

#include "duration.hpp"
#include "escape.hpp"

namespace holdfast::cli {

namespace {

std::string lease_text(const GateHolderInfo& holder, StoreTime now) {
  if (holder.tie == GateTie::kNothing) {
    return "it has no lease: it ends when it is released";
  }
  if (!holder.expires_at || *holder.expires_at <= now) {
    return "its lease is over: it will be passed over";
  }
  return fmt::format("its lease ends in {} unless it is renewed",
                     duration_text(*holder.expires_at - now));
}

}  // namespace

std::string reason_text(const std::string& reason) {
  return reason.empty() ? std::string{} : fmt::format(", reason: {}", one_line(reason));
}

std::string hold_text(const GateHolderInfo& holder, StoreTime now) {
  return fmt::format("for {}, with fence {}{}; {}", duration_text(now - holder.granted_at),
                     holder.fence, reason_text(holder.reason), lease_text(holder, now));
}

std::string outlook_text(const Locks& locks, const Wait& wait) {
  const StoreTime now = locks.now;
  const Outlook outlook = outlook_of(locks, wait);
  std::string text = outlook.when;
  if (wait.waiter->why.kind == WhyNot::Kind::kNext) {
    return text;
  }
  if (outlook.at_latest) {
    const std::string time = duration_text(*outlook.at_latest - now);
    text += wait.waiter->why.kind == WhyNot::Kind::kRate
                ? fmt::format(", in {}", time)
                : fmt::format("; at the latest in {}, if the lease is not renewed", time);
  }
  if (wait.waiter->deadline) {
    text += fmt::format("; it gives up in {}", duration_text(*wait.waiter->deadline - now));
  }
  return text;
}

void print_sentences(Terminal& terminal, const Sentences& sentences) {
  for (const std::string& sentence : sentences) {
    terminal.line(sentence);
  }
}

}  // namespace holdfast::cli
