// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>

#include <holdfast/workflow.hpp>

#include "run_gates.hpp"
#include "run_machine.hpp"

namespace holdfast {

RunLock::RunLock(detail::RunMachine& machine, std::uint64_t operation, boost::json::value granted)
    : machine_(&machine), operation_(operation), run_(&machine), name_(machine.gate_of(operation)) {
  detail::LockGrant grant = detail::read_grant(granted);
  fence_ = grant.fence;
  slots_ = std::move(grant.slots);
}

RunLock::RunLock(RunLock&& other) noexcept
    : machine_(std::exchange(other.machine_, nullptr)),
      operation_(other.operation_),
      run_(other.run_),
      name_(std::move(other.name_)),
      fence_(other.fence_),
      slots_(std::move(other.slots_)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  if (this != &other) {
    release();
    machine_ = std::exchange(other.machine_, nullptr);
    operation_ = other.operation_;
    name_ = std::move(other.name_);
    run_ = other.run_;
    fence_ = other.fence_;
    slots_ = std::move(other.slots_);
  }
  return *this;
}

void RunLock::release() noexcept {
  if (machine_ != nullptr) {
    std::exchange(machine_, nullptr)->release_lock(operation_);
  }
}

std::string RunLock::key() const {
  const std::string_view uid = run_ == nullptr ? std::string_view() : run_->facts().uid;
  return detail::run_holder_key(name_, uid, operation_);
}

Transaction& RunLock::guard(Transaction& transaction) const {
  return transaction.guard(key(), fence_);
}
Batch& RunLock::guard(Batch& batch) const { return batch.guard(key(), fence_); }

namespace {

/// In which all who take several take them.
std::vector<std::size_t> order_of(const std::vector<Limit>& limits) {
  std::vector<std::size_t> order(limits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) -> const std::string& { return limits[i].name(); });
  const auto twice = std::ranges::adjacent_find(
      order, {}, [&](std::size_t i) -> const std::string& { return limits[i].name(); });
  if (twice != order.end()) {
    throw InvalidArgument("the limit '" + limits[*twice].name() + "' is asked for twice at once");
  }
  return order;
}

Task<std::vector<RunLock>> lock_in_order(Context& ctx, std::vector<Limit> limits,
                                         LockOptions options, std::string reason) {
  options.reason = reason;
  const std::vector<std::size_t> order = order_of(limits);
  const StoreTime began_at = ctx.now();
  std::vector<RunLock> locks(limits.size());
  for (const std::size_t i : order) {
    LockOptions rest = options;
    if (options.timeout) {
      rest.timeout = std::max(*options.timeout - (ctx.now() - began_at), Duration::zero());
    }
    locks[i] = co_await ctx.acquire(limits[i], rest);
  }
  co_return locks;
}

}  // namespace

Task<std::vector<RunLock>> lock_all(Context& ctx, const std::vector<Limit>& limits,
                                    const LockOptions& options) {
  return lock_in_order(ctx, limits, options, std::string(options.reason));
}

}  // namespace holdfast
