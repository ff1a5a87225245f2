// SPDX-License-Identifier: Apache-2.0
#include "lock_asker.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <holdfast/gate_inspection.hpp>

namespace holdfast::cli {

namespace {

/// "'gpus' has 4 slots".
std::string kind_text(const std::string& name, const GateDefinition& definition) {
  if (definition.kind == GateDefinition::Kind::kReadWrite) {
    return fmt::format("'{}' has readers and writers", name);
  }
  return definition.capacity == 1 ? fmt::format("'{}' is for one at a time", name)
                                  : fmt::format("'{}' has {} slots", name, definition.capacity);
}

/// What to write for it, behind its name or, `by_lock_option`, as a part of that word.
std::string kind_advice(const std::string& name, const GateDefinition& definition,
                        bool by_lock_option) {
  const bool read_write = definition.kind == GateDefinition::Kind::kReadWrite;
  if (by_lock_option) {
    return read_write ? fmt::format("write --lock {0}:shared, or --lock {0}:exclusive", name)
                      : fmt::format("write --lock {}:slots={}", name, definition.capacity);
  }
  if (read_write) {
    return "write --shared, or --exclusive, and no --slots";
  }
  return definition.capacity == 1 ? "write neither --slots nor --shared nor --exclusive"
                                  : fmt::format("write --slots {}", definition.capacity);
}

/// What the lock is defined as: as in the store, if that is what was asked for. Nothing if it is
/// not.
std::optional<GateDefinition> definition_for(const WantedLock& lock,
                                             const std::optional<GateInfo>& info) {
  using Kind = GateDefinition::Kind;
  constexpr std::uint64_t kReadersMax = 1'000;  // As of Gates::shared_mutex.
  GateDefinition wanted;
  if (lock.kind != LockKind::kPermits) {
    wanted.kind = Kind::kReadWrite;
    wanted.capacity = kReadersMax;
  } else {
    wanted.capacity = lock.slots.value_or(1);
  }
  if (!info) {
    return wanted;
  }
  const GateDefinition& stored = info->definition;
  const bool is_only_writer = lock.kind == LockKind::kPermits && !lock.slots;
  const bool fits = stored.kind == Kind::kReadWrite
                        ? wanted.kind == Kind::kReadWrite || is_only_writer
                        : wanted.kind == Kind::kPermits && wanted.capacity == stored.capacity;
  return fits ? std::optional(stored) : std::nullopt;
}

std::string waiting_text(const GateInfo& info) {
  constexpr std::size_t kNamedMax = 3;
  std::string holders;
  const std::size_t count = info.holders.size();
  for (std::size_t i = 0; i < std::min(count, kNamedMax); ++i) {
    const GateHolderInfo& holder = info.holders[i];
    holders += (i == 0 ? "" : ", ") + holder.holder;
    holders += holder.reason.empty() ? std::string{} : fmt::format(" ({})", holder.reason);
  }
  if (count > kNamedMax) {
    holders += fmt::format(" and {} more", count - kNamedMax);
  }
  return fmt::format("waiting for '{}': held by {}, {} waiting", info.name,
                     holders.empty() ? "nobody" : holders, info.waiter_count);
}

}  // namespace

std::string names_of(const std::vector<WantedLock>& locks) {
  std::string names;
  for (const WantedLock& lock : locks) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", lock.name);
  }
  return names;
}

LockAsker::LockAsker(const LockArgs& args, const Session& session, Gates& gates,
                     const std::vector<std::string>& ancestors, const Voice& voice)
    : args_(args),
      session_(session),
      store_(session.store()),
      gates_(gates),
      ancestors_(ancestors.begin(), ancestors.end()),
      voice_(voice) {}

Task<std::vector<DurableHold>> LockAsker::ask(const Wake& ended) {
  const std::unique_ptr<const Wake, void (*)(const Wake*)> at_end(
      &ended, [](const Wake* wake) { wake->wake(); });
  std::vector<DurableRequest> all = co_await requests();
  const AcquireOptions how = options();
  if (voice_.verbose()) {
    // Only to be able to say for whom it waits, before it does.
    std::optional<std::vector<DurableHold>> at_once = co_await try_acquire_all(all, how);
    if (at_once) {
      co_return *std::move(at_once);
    }
    if (args_.wait != Duration::zero()) {
      co_await tell_whom_it_waits_for();
    }
  }
  std::vector<DurableHold> holds = co_await acquire_all(std::move(all), how);
  co_return holds;
}

AcquireOptions LockAsker::options() const {
  AcquireOptions options;
  options.timeout = args_.wait;
  options.priority = args_.priority;
  options.reason = args_.reason;
  options.actor = session_.id();
  options.needed_by = ancestors_;
  return options;
}

Task<std::vector<DurableRequest>> LockAsker::requests() {
  std::vector<DurableRequest> requests;
  for (const WantedLock& lock : args_.locks) {
    const std::optional<GateInfo> info = co_await inspect_gate(store_, lock.name, 1);
    const std::optional<GateDefinition> definition = definition_for(lock, info);
    if (!definition) {
      throw DefinitionMismatch(kind_text(lock.name, info->definition) + "; " +
                               kind_advice(lock.name, info->definition, args_.by_lock_option));
    }
    requests.push_back(lock.kind == LockKind::kReader
                           ? gates_.shared_mutex(lock.name, definition->capacity).shared_request()
                           : gates_.gate(lock.name, *definition).request(lock.weight));
  }
  co_return requests;
}

Task<void> LockAsker::tell_whom_it_waits_for() {
  for (const WantedLock& lock : args_.locks) {
    const std::optional<GateInfo> info = co_await inspect_gate(store_, lock.name, 1);
    if (info && (args_.locks.size() == 1 || !info->holders.empty() || info->waiter_count > 0)) {
      voice_.tell(waiting_text(*info));
    }
  }
}

}  // namespace holdfast::cli
