// SPDX-License-Identifier: Apache-2.0
#include "waits.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/core.h>

#include "duration.hpp"
#include "party.hpp"

namespace holdfast::cli {

namespace {

bool holds_up(const GateWaiterInfo& waiter, const GateHolderInfo& holder) {
  if (holder.actor.empty()) {
    return waiter.holder == holder.holder;
  }
  return waiter.actor == holder.actor ||
         std::ranges::find(waiter.needed_by, holder.actor) != waiter.needed_by.end();
}

StoreTime end_of(const GateHolderInfo& holder, StoreTime now) {
  return holder.tie == GateTie::kNothing ? StoreTime::max() : holder.expires_at.value_or(now);
}

/// Nothing: nobody can tell.
std::optional<StoreTime> unless_never(StoreTime time) {
  return time == StoreTime::max() ? std::nullopt : std::optional(time);
}

/// When so much will be free, if no lease is renewed any more.
std::optional<StoreTime> free_at(const GateInfo& gate, std::uint64_t wanted, std::uint64_t free,
                                 StoreTime now) {
  std::vector<const GateHolderInfo*> holders;
  holders.reserve(gate.holders.size());
  for (const GateHolderInfo& holder : gate.holders) {
    holders.push_back(&holder);
  }
  std::ranges::sort(holders, {}, [&](const auto* one) { return end_of(*one, now); });
  for (const GateHolderInfo* holder : holders) {
    free += holder->weight;
    if (free >= wanted) {
      return unless_never(end_of(*holder, now));
    }
  }
  return std::nullopt;
}

std::optional<StoreTime> all_gone_at(const GateInfo& gate, StoreTime now) {
  if (gate.holders.empty()) {
    return std::nullopt;
  }
  StoreTime last = now;
  for (const GateHolderInfo& holder : gate.holders) {
    last = std::max(last, end_of(holder, now));
  }
  return unless_never(last);
}

}  // namespace

std::vector<Wait> all_waits(const Locks& locks) {
  std::vector<Wait> waits;
  for (const GateInfo& gate : locks.gates) {
    for (std::size_t i = 0; i < gate.waiters.size(); ++i) {
      waits.push_back({&gate, &gate.waiters[i], i});
    }
  }
  return waits;
}

std::vector<Wait> waits_of(const Locks& locks, const GateHolderInfo& holder) {
  std::vector<Wait> waits = all_waits(locks);
  std::erase_if(waits, [&](const Wait& wait) { return !holds_up(*wait.waiter, holder); });
  return waits;
}

Outlook outlook_of(const Locks& locks, const Wait& wait) {
  const StoreTime now = locks.now;
  const GateInfo& gate = *wait.gate;
  const WhyNot& why = wait.waiter->why;
  switch (why.kind) {
    case WhyNot::Kind::kFull:
      if (gate.holders.size() == 1) {
        return {fmt::format("when {} lets go of it", holders_text(locks, gate)),
                free_at(gate, why.wanted, why.free, now)};
      }
      return {fmt::format("when {} more of it is free; it is held by {}", why.wanted - why.free,
                          holders_text(locks, gate)),
              free_at(gate, why.wanted, why.free, now)};
    case WhyNot::Kind::kHeld:
      return {fmt::format("when {} {} let go of it", holders_text(locks, gate),
                          gate.holders.size() == 1 ? "has" : "have"),
              all_gone_at(gate, now)};
    case WhyNot::Kind::kBehind:
      return {"when those before it are in", std::nullopt};
    case WhyNot::Kind::kRate:
      return {"when its rate allows the next one", why.until};
    case WhyNot::Kind::kPaused:
    case WhyNot::Kind::kDraining:
      return {"when an operator resumes the lock", std::nullopt};
    case WhyNot::Kind::kTooHeavy:
      return {fmt::format("when an operator gives the lock a capacity of {}", why.wanted),
              std::nullopt};
    case WhyNot::Kind::kNext:
      return {"at once", now};
  }
  return {"when the lock is free", std::nullopt};
}

std::vector<std::string> names_of_holders(const GateInfo& gate) {
  std::vector<std::string> names;
  names.reserve(gate.holders.size());
  for (const GateHolderInfo& holder : gate.holders) {
    names.push_back(holder.holder);
  }
  return names;
}

std::string holders_text(const Locks& locks, const GateInfo& gate) {
  constexpr std::size_t kNamedMax = 3;
  const std::size_t count = gate.holders.size();
  if (count == 0) {
    return "nobody";
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(count, kNamedMax); ++i) {
    const bool last = i > 0 && i + 1 == count;
    text += fmt::format("{}{}",
                        i == 0 ? ""
                        : last ? " and "
                               : ", ",
                        full_name(party_of(locks, gate.holders[i])));
  }
  return count > kNamedMax ? fmt::format("{} and {} more", text, count - kNamedMax) : text;
}

}  // namespace holdfast::cli
