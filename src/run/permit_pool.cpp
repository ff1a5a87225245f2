// SPDX-License-Identifier: Apache-2.0
#include <holdfast/permit_pool.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <holdfast/workflow.hpp>

#include "gate/gate_keys.hpp"
#include "gate/gate_rules.hpp"
#include "permit_run.hpp"
#include "run_gates.hpp"
#include "run_machine.hpp"
#include "run_place.hpp"

namespace holdfast {

namespace {

using Phase = detail::RunPermit::Phase;

/// In the order `kRandom`, between two looks.
constexpr Duration kBackOffFirst = std::chrono::seconds(5);
constexpr Duration kBackOffMax = std::chrono::minutes(1);
/// While the run of a permit that an operator has ended at the gate is about to end, too.
constexpr Duration kTidyingFirst = std::chrono::milliseconds(100);
constexpr Duration kTidyingMax = std::chrono::seconds(5);

std::string name_of_slot(const GateDefinition& definition, std::uint64_t slot) {
  return slot < definition.slot_names.size() ? definition.slot_names[slot] : std::to_string(slot);
}

void check_pool(std::string_view name, const GateDefinition& definition, std::string_view queue) {
  static_cast<void>(detail::GateKeys(name));
  detail::check_definition(name, definition);
  std::string longest = name_of_slot(definition, definition.capacity - 1);
  for (const std::string& slot : definition.slot_names) {
    if (slot.empty() || slot.find(':') != std::string::npos) {
      throw InvalidArgument("a slot of the pool '" + std::string(name) + "' is called '" + slot +
                            "': give a name without ':', as it becomes the end of a run's id");
    }
    longest = std::max(longest, slot, [](const std::string& one, const std::string& other) {
      return one.size() < other.size();
    });
  }
  const std::size_t bytes = detail::permit_run_id(name, longest).size();
  if (bytes > detail::kRunNameBytesMax) {
    throw InvalidArgument("the pool '" + std::string(name) + "' has a slot '" + longest +
                          "', and the id of its permit would have " + std::to_string(bytes) +
                          " bytes; at most " + std::to_string(detail::kRunNameBytesMax));
  }
  if (queue.size() > detail::kRunNameBytesMax) {
    throw InvalidArgument("the queue of the pool '" + std::string(name) + "' has " +
                          std::to_string(queue.size()) + " bytes; at most " +
                          std::to_string(detail::kRunNameBytesMax));
  }
}

void check_lease(std::string_view pool, Duration lease) {
  if (lease <= Duration::zero()) {
    throw InvalidArgument("the lease of a permit of '" + std::string(pool) + "' is " +
                          std::to_string(lease.count()) + " ns; give more than zero");
  }
}

bool is_held(const std::shared_ptr<detail::RunPermit>& permit) {
  return permit != nullptr && permit->phase == Phase::kHeld;
}

Task<void> wait_for_end(Context& ctx, std::shared_ptr<detail::RunPermit> permit) {
  auto end = ctx.wait_until([permit] { return !is_held(permit); });
  co_await end;
}

/// The answer, or the end of the permit, which comes in its place.
Task<bool> ask_for_renewal(Context& ctx, std::shared_ptr<detail::RunPermit> permit,
                           Duration lease) {
  if (!is_held(permit)) {
    co_return false;
  }
  detail::machine_of(ctx).renew_permit(*permit, lease);
  auto answer = ctx.wait_until([permit, number = permit->renewals_asked] {
    return permit->renewals_made >= number || !is_held(permit);
  });
  co_await answer;
  co_return is_held(permit);
}

}  // namespace

// --- Permit --------------------------------------------------------------------------------------

Permit::Permit(Permit&& other) noexcept
    : machine_(std::exchange(other.machine_, nullptr)),
      permit_(std::move(other.permit_)),
      slot_(std::move(other.slot_)),
      run_id_(std::move(other.run_id_)),
      key_(std::move(other.key_)),
      fence_(other.fence_) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    release();
    machine_ = std::exchange(other.machine_, nullptr);
    permit_ = std::move(other.permit_);
    slot_ = std::move(other.slot_);
    run_id_ = std::move(other.run_id_);
    key_ = std::move(other.key_);
    fence_ = other.fence_;
  }
  return *this;
}

void Permit::release() noexcept {
  if (machine_ != nullptr) {
    std::exchange(machine_, nullptr)->release_permit(*permit_);
  }
}

bool Permit::expired() const noexcept {
  return permit_ != nullptr && permit_->phase == Phase::kOver;
}

Task<void> Permit::until_expired(Context& ctx) { return wait_for_end(ctx, permit_); }

Task<bool> Permit::renew(Context& ctx, Duration lease) {
  check_lease(run_id_, lease);
  return ask_for_renewal(ctx, permit_, lease);
}

Transaction& Permit::guard(Transaction& transaction) const {
  return transaction.guard(key_, fence_);
}
Batch& Permit::guard(Batch& batch) const { return batch.guard(key_, fence_); }

// --- PermitPool ----------------------------------------------------------------------------------

struct PermitPool::Terms {
  std::string name;
  GateDefinition definition;
  PermitOrder order = PermitOrder::kFair;
  std::string queue;
  Duration lease{};
  std::optional<Duration> timeout;
  std::optional<StoreTime> deadline;
  int priority = 0;
  std::string reason;

  [[nodiscard]] detail::LockTerms lock(std::uint64_t random) const {
    detail::LockTerms terms;
    terms.gate = name;
    terms.definition = definition;
    terms.priority = priority;
    terms.reason = reason;
    terms.queue_max = std::numeric_limits<std::uint64_t>::max();
    if (order == PermitOrder::kRandom) {
      terms.only_tries = true;
      terms.slot_seed = random;
    } else {
      terms.timeout = timeout;
    }
    return terms;
  }
  /// Throws `TimedOut` if there is no time left for that.
  [[nodiscard]] Duration checked_pause(Duration pause, StoreTime now) const {
    if (deadline && *deadline <= now) {
      throw TimedOut("'" + name + "': the deadline passed, and no permit was free");
    }
    return deadline ? std::min(pause, *deadline - now) : pause;
  }
};

PermitPool::PermitPool(std::string_view name, std::uint64_t capacity,
                       const PermitPoolOptions& options)
    : name_(name), order_(options.order), queue_(options.queue) {
  definition_.capacity = capacity;
  check_pool(name_, definition_, queue_);
}

PermitPool::PermitPool(std::string_view name, std::vector<std::string> slots,
                       const PermitPoolOptions& options)
    : name_(name), order_(options.order), queue_(options.queue) {
  definition_.capacity = slots.size();
  definition_.slot_names = std::move(slots);
  check_pool(name_, definition_, queue_);
}

Task<Permit> PermitPool::acquire(Context& ctx, const PermitOptions& options) const {
  check_lease(name_, options.lease);
  if (options.timeout && *options.timeout < Duration::zero()) {
    throw InvalidArgument("the time-out of a permit of '" + name_ + "' is below zero");
  }
  Terms terms;
  terms.name = name_;
  terms.definition = definition_;
  terms.order = order_;
  terms.queue = queue_;
  terms.lease = options.lease;
  terms.timeout = options.timeout;
  terms.priority = options.priority;
  terms.reason = options.reason;
  return acquire_on(ctx, std::move(terms));
}

/// In the order `kFair` there is one wait, and no second round.
Task<Permit> PermitPool::acquire_on(Context& ctx, Terms terms) {
  if (terms.timeout) {
    terms.deadline = ctx.now() + *terms.timeout;
  }
  for (Duration pause = kBackOffFirst;; pause = std::min(2 * pause, kBackOffMax)) {
    const std::uint64_t random = terms.order == PermitOrder::kRandom ? ctx.random() : 0;
    auto asked = detail::machine_of(ctx).begin_lock(terms.lock(random));
    const std::uint64_t operation = asked->number();
    Durable<std::optional<RunLock>> wait(std::move(asked), terms.name);
    const std::optional<RunLock> lock = co_await wait;
    if (lock) {
      Permit permit = co_await begin_run(ctx, terms, *lock, operation);
      co_return permit;
    }
    const Duration left = terms.checked_pause(pause, ctx.now());
    co_await ctx.sleep(left);
  }
}

/// From the lock, which stays the run's until the run of the permit has begun.
Task<Permit> PermitPool::begin_run(Context& ctx, const Terms& terms, const RunLock& lock,
                                   std::uint64_t operation) {
  detail::RunMachine& machine = detail::machine_of(ctx);
  Permit permit;
  permit.slot_ = name_of_slot(terms.definition, lock.slots().at(0));
  permit.run_id_ = detail::permit_run_id(terms.name, permit.slot_);
  permit.key_ = detail::run_holder_key(terms.name, machine.facts().uid, operation);
  permit.fence_ = lock.fence();
  detail::PermitInput input;
  input.pool = terms.name;
  input.slot = permit.slot_;
  input.fence = permit.fence_;
  input.lease_ns = terms.lease.count();
  for (Duration pause = kTidyingFirst;; pause = std::min(2 * pause, kTidyingMax)) {
    permit.permit_ =
        machine.begin_permit(operation, permit.run_id_, terms.queue, detail::to_payload(input));
    permit.machine_ = &machine;
    auto begun =
        ctx.wait_until([started = permit.permit_] { return started->phase != Phase::kBegins; });
    co_await begun;
    const detail::RunPermit& outcome = *permit.permit_;
    if (outcome.phase == Phase::kHeld) {
      co_return permit;
    }
    if (outcome.taken_by.empty()) {
      throw StaleFence("an operator has ended the permit '" + permit.run_id_ + "' before run '" +
                       ctx.run_id() + "' saw that it had it");
    }
    if (outcome.taken_by != detail::kPermitType) {
      throw RunExists(outcome.refusal);
    }
    const Duration left = terms.checked_pause(pause, ctx.now());
    co_await ctx.sleep(left);
  }
}

}  // namespace holdfast
