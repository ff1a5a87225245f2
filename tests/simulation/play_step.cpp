// SPDX-License-Identifier: Apache-2.0
#include "play_step.hpp"

#include <array>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

#include <holdfast/this_task.hpp>

#include "mortal_process.hpp"
#include "play.hpp"

namespace holdfast::testing {

namespace {

using std::chrono::milliseconds;

const Limit& limit_at(int limit) {
  static const std::array<Limit, kStepLimits> kLimits{
      Limit("step limit 0", static_cast<std::uint64_t>(capacity_of_limit(0))),
      Limit("step limit 1", static_cast<std::uint64_t>(capacity_of_limit(1)))};
  return kLimits.at(static_cast<std::size_t>(limit));
}

void note_effect(int label, const StepContext& step) {
  ++outside->effects[label][step.idempotency_key()];
}

void fail_at_first(const StepContext& step, int failing) {
  if (step.attempt() <= static_cast<std::uint32_t>(failing)) {
    throw std::runtime_error("not yet");
  }
}

Task<std::int64_t> do_slowly(StepContext& step, int label, int failing, int time_ms) {
  std::optional<LimitedBodies::Presence> presence;
  if (const std::optional<int> limit = step_limit_of(label)) {
    presence.emplace(outside->bodies, *limit,
                     LimitedBodies::Body{process_under_way, step.stop_token(), step.fence()});
  }
  note_effect(label, step);
  step.heartbeat(time_ms);
  co_await this_task::sleep_for(milliseconds(time_ms));
  fail_at_first(step, failing);
  co_return label;
}

StepOptions options_of(const Node& node) {
  StepOptions options;
  options.retry.attempts_max = node.first >= kAttemptsMax ? kAttemptsMax : 0;
  options.side_effect_free = node.label % 5 == 0;
  if (const std::optional<int> limit = step_limit_of(node.label)) {
    options.limit = &limit_at(*limit);
    options.limit_priority = node.label % 2;
  }
  return options;
}

Task<std::int64_t> value_of(Context& ctx, Durable<std::int64_t>& step, int label) {
  auto outcome = co_await ctx.attempt(step);
  co_return has_failed(outcome) ? -label : outcome.value();
}

}  // namespace

Task<std::int64_t> perform_step(Context& ctx, const Node& node) {
  const int label = node.label;
  const int failing = node.first;
  const int time_ms = node.second;
  std::int64_t value = 0;
  if (time_ms > 0) {
    auto step = ctx.run(
        "slow",
        [label, failing, time_ms](StepContext& context) {
          return do_slowly(context, label, failing, time_ms);
        },
        options_of(node));
    value = co_await value_of(ctx, step, label);
  } else {
    auto step = ctx.run(
        "quick",
        [label, failing](StepContext& context) -> std::int64_t {
          note_effect(label, context);
          fail_at_first(context, failing);
          return label;
        },
        options_of(node));
    value = co_await value_of(ctx, step, label);
  }
  co_return value;
}

Task<void> clean_up(Context& ctx, int label) {
  auto step = ctx.run("clean up", [label](StepContext& context) { note_effect(label, context); });
  co_await step;
}

}  // namespace holdfast::testing
