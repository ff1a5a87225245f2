// SPDX-License-Identifier: Apache-2.0
#include "play.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

#include <holdfast/permit_pool.hpp>

#include "play_step.hpp"

namespace holdfast::testing {

namespace {

using std::chrono::milliseconds;

/// What the handlers of a run have heard.
struct Heard {
  int updates = 0;
  std::int64_t sum = 0;
};

Task<std::int64_t> perform(Context& ctx, Heard& heard, const Node& node);

Task<std::int64_t> perform_sleep(Context& ctx, const Node& node) {
  const auto most = static_cast<std::uint64_t>(node.first);
  const milliseconds time(static_cast<std::int64_t>(ctx.random() % most));
  const StoreTime due = ctx.now() + time;
  co_await ctx.sleep(time);
  if (ctx.now() < due) {
    outside->faults.emplace_back("a timer fired early");
  }
  co_return 0;
}

Task<std::int64_t> perform_signals(Context& ctx, const Node& node) {
  const std::string name = "signal" + std::to_string(node.first);
  std::int64_t sum = 0;
  for (int i = 0; i < node.second; ++i) {
    const auto value = co_await ctx.signal<std::int64_t>(name);
    sum += value;
  }
  co_return sum;
}

Task<std::int64_t> perform_updates(Context& ctx, Heard& heard, const Node& node) {
  const int count = node.second;
  auto all_are_here = ctx.wait_until([&heard, count] { return heard.updates >= count; });
  co_await all_are_here;
  co_return heard.sum;
}

Task<std::int64_t> perform_push(Context& ctx, const Node& node) {
  const int label = node.label;
  auto cell = ctx.global().cell<std::vector<int>>("cell" + std::to_string(node.first));
  auto push = cell.update([label](std::vector<int>& labels) { labels.push_back(label); });
  co_await push;
  co_return 0;
}

/// Another child under the id of one that goes on.
Task<void> perform_rival(Context& ctx, const Program& program, const ChildOptions& options) {
  auto rival = ctx.child(play_workflow(), program, options);
  auto outcome = co_await ctx.attempt(rival);
  try {
    outcome.rethrow();
    outside->faults.push_back("two children had the id " + std::string(options.id));
  } catch (const RunExists&) {
    co_return;
  }
}

Task<std::int64_t> perform_child(Context& ctx, const Node& node) {
  Program program;
  program.cleanup = -node.label;
  program.chain.push_back(node.parts.front());
  ChildOptions options;
  options.parent_close = static_cast<ParentClose>(node.first);
  options.queue = node.second == 0 ? "" : kOtherQueue;
  std::string id = "child ";
  id.append(std::to_string(node.label)).append(" of ").append(ctx.run_uid());
  const bool has_id = node.label % 2 == 0;
  options.id = has_id ? id : std::string_view();
  auto child = ctx.child(play_workflow(), program, options);
  if (has_id) {
    co_await perform_rival(ctx, program, options);
  }
  auto outcome = co_await ctx.attempt(child);
  co_return has_failed(outcome) ? -node.label : outcome.value();
}

std::vector<Task<std::int64_t>> parts_of(Context& ctx, Heard& heard, const Node& node) {
  std::vector<Task<std::int64_t>> parts;
  for (const Node& part : node.parts) {
    parts.push_back(perform(ctx, heard, part));
  }
  return parts;
}

Task<std::int64_t> perform_all(Context& ctx, Heard& heard, const Node& node) {
  const std::vector<std::int64_t> values = co_await ctx.all(parts_of(ctx, heard, node));
  std::int64_t sum = 0;
  for (const std::int64_t value : values) {
    sum += value;
  }
  co_return sum;
}

Task<std::int64_t> perform_any(Context& ctx, Heard& heard, const Node& node) {
  static_cast<void>(co_await ctx.any(parts_of(ctx, heard, node)));
  co_return 1;
}

Task<std::int64_t> perform_sequence(Context& ctx, Heard& heard, const Node& node) {
  std::int64_t sum = 0;
  for (const Node& part : node.parts) {
    const std::int64_t value = co_await perform(ctx, heard, part);
    sum += value;
  }
  co_return sum;
}

Task<std::int64_t> perform_never(Context& ctx, const Node& node) {
  auto never = ctx.wait_until([] { return false; }, milliseconds(node.first));
  const bool happened = co_await never;
  if (happened) {
    outside->faults.emplace_back("what never happens has happened");
  }
  co_return 0;
}

Limit limit_of(const Node& node) {
  return {std::string("lock").append(std::to_string(node.first)),
          node.first == kLocks - 1 ? 2U : 1U};
}

/// One that waits only for a while may be part of a circle.
Task<RunLock> insist_on(Context& ctx, Limit limit) {
  for (;;) {
    auto wait = ctx.acquire(limit);
    auto lock = co_await ctx.attempt(wait);
    if (!has_failed(lock)) {
      co_return lock.value();
    }
    ++outside->circles;
    co_await ctx.sleep(milliseconds(100));
  }
}

/// Adds its label to what was there before its part, so that of two that are in at once one is
/// lost.
Task<std::int64_t> perform_locked(Context& ctx, Heard& heard, const Node& node) {
  const RunLock lock = co_await insist_on(ctx, limit_of(node));
  const bool is_alone = node.first < kLocks - 1;
  auto cell = ctx.global().cell<std::vector<int>>(
      std::string("guarded").append(std::to_string(node.first)));
  std::vector<int> labels;
  if (is_alone) {
    labels = co_await cell.get();
  }
  const std::int64_t value = co_await perform(ctx, heard, node.parts.front());
  if (is_alone) {
    labels.push_back(node.label);
    co_await cell.set(labels);
  }
  co_return value;
}

Task<std::int64_t> perform_locked_a_while(Context& ctx, Heard& heard, const Node& node) {
  const LockOptions options{.timeout = milliseconds(node.second), .priority = node.label % 3};
  auto wait = ctx.acquire(limit_of(node), options);
  const StoreTime asked_at = ctx.now();
  auto lock = co_await ctx.attempt(wait);
  if (has_failed(lock)) {
    co_return 0;
  }
  if (ctx.now() < asked_at) {
    outside->faults.emplace_back("a lock was granted before it was asked for");
  }
  static_cast<void>(co_await perform(ctx, heard, node.parts.front()));
  co_return 0;
}

/// One that waits only for a while may be part of a circle with it.
Task<Permit> insist_on_permit(Context& ctx, const PermitPool& pool, Duration lease) {
  const PermitOptions options{.lease = lease};
  for (;;) {
    auto permit = co_await ctx.attempt(pool.acquire(ctx, options));
    if (!has_failed(permit)) {
      co_return permit.value();
    }
    ++outside->circles;
    co_await ctx.sleep(milliseconds(100));
  }
}

Task<std::int64_t> perform_permitted(Context& ctx, Heard& heard, const Node& node) {
  const PermitPoolOptions options{.order = node.label % 4 == 0 ? PermitOrder::kRandom
                                                               : PermitOrder::kFair};
  const PermitPool pool("pool", kPermits, options);
  Permit permit = co_await insist_on_permit(ctx, pool, std::chrono::seconds(node.first));
  if (node.label % 3 == 0) {
    static_cast<void>(co_await permit.renew(ctx, std::chrono::seconds(node.first)));
  }
  const std::int64_t value = co_await perform(ctx, heard, node.parts.front());
  co_return value;
}

/// Comes twice; the second time it asks in the commit in which it lets go. Who is in waits for
/// nothing, so it can be part of no circle.
Task<std::int64_t> push_in(Context& ctx, const Node& node, int branch) {
  const Limit crowd("crowd", kCrowdCapacity);
  const auto most = static_cast<std::uint64_t>(node.first);
  for (int visit = 0; visit < 2; ++visit) {
    const int kind = node.label + branch + visit;
    LockOptions options{.weight = static_cast<std::uint64_t>(1 + kind % kCrowdCapacity),
                        .priority = (branch + visit) % 3};
    if (kind % 4 != 0) {
      options.timeout = milliseconds(kind % 4 == 1 ? 0 : node.first);
    }
    auto wait = ctx.acquire(crowd, options);
    auto lock = co_await ctx.attempt(wait);
    if (!has_failed(lock)) {
      co_await ctx.sleep(milliseconds(static_cast<std::int64_t>(ctx.random() % most)));
    }
  }
  co_return 0;
}

Task<std::int64_t> perform_crowd(Context& ctx, const Node& node) {
  std::vector<Task<std::int64_t>> branches;
  for (int branch = 0; branch < node.second; ++branch) {
    branches.push_back(push_in(ctx, node, branch));
  }
  static_cast<void>(co_await ctx.all(std::move(branches)));
  co_return 0;
}

Task<std::int64_t> perform(Context& ctx, Heard& heard, const Node& node) {
  switch (node.what()) {
    case Act::kSequence:
      return perform_sequence(ctx, heard, node);
    case Act::kAll:
      return perform_all(ctx, heard, node);
    case Act::kAny:
      return perform_any(ctx, heard, node);
    case Act::kStep:
      return perform_step(ctx, node);
    case Act::kSleep:
      return perform_sleep(ctx, node);
    case Act::kNever:
      return perform_never(ctx, node);
    case Act::kSignals:
      return perform_signals(ctx, node);
    case Act::kUpdates:
      return perform_updates(ctx, heard, node);
    case Act::kPush:
      return perform_push(ctx, node);
    case Act::kChild:
      return perform_child(ctx, node);
    case Act::kLocked:
      return perform_locked(ctx, heard, node);
    case Act::kLockedAWhile:
      return perform_locked_a_while(ctx, heard, node);
    case Act::kPermitted:
      return perform_permitted(ctx, heard, node);
    case Act::kCrowd:
      return perform_crowd(ctx, node);
    case Act::kThrow:
      break;
  }
  throw std::runtime_error("as the program says");
}

Task<std::int64_t> play(Context& ctx, Program program) {
  Heard heard;
  ctx.on_update<std::int64_t, std::int64_t>(
      "add",
      [&heard](std::int64_t value) {
        ++heard.updates;
        heard.sum += value;
        return value + 1;
      },
      [](std::int64_t value) {
        if (value < 0) {
          throw std::invalid_argument("only up");
        }
      });
  ctx.on_query<int>("updates", [&heard] { return heard.updates; });
  auto outcome = co_await ctx.attempt(perform(ctx, heard, program.chain.front()));
  if (!outcome) {
    co_await ctx.shielded(clean_up(ctx, program.cleanup));
    outcome.rethrow();
  }
  program.sum += outcome.value();
  program.chain.erase(program.chain.begin());
  if (!program.chain.empty()) {
    ctx.continue_as_new(program);
  }
  co_return program.sum;
}

}  // namespace

const Workflow<Program, std::int64_t>& play_workflow(PlayLimit limit) {
  static const auto unlimited = workflow("play", play);
  constexpr auto kKeyOf = [](const Program& of) { return std::to_string(of.cleanup % 2); };
  static const auto by_key =
      workflow("play by key", play).concurrency({.max = 1, .max_total = 2}, kKeyOf);
  static const auto for_step =
      workflow("play for step", play)
          .concurrency({.max = 1, .max_total = 2, .hold = HoldSlot::kForStep}, kKeyOf);
  static const auto while_busy =
      workflow("play while busy", play).concurrency({.max = 2, .hold = HoldSlot::kWhileBusy});
  switch (limit) {
    case PlayLimit::kByKey:
      return by_key;
    case PlayLimit::kWhileBusy:
      return while_busy;
    case PlayLimit::kForStep:
      return for_step;
    case PlayLimit::kNone:
      break;
  }
  return unlimited;
}

}  // namespace holdfast::testing
