// SPDX-License-Identifier: Apache-2.0
#include "gathering.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

#include <holdfast/engine.hpp>

#include "errand.hpp"

namespace holdfast::testing {

namespace {

using std::chrono::milliseconds;

Task<void> gather(Context& ctx, std::int64_t pause_ms) {
  std::vector<std::int64_t> seen;
  ctx.on_signal<std::int64_t>(kGatherSignal,
                              [&seen](std::int64_t value) { seen.push_back(value); });
  auto cell = ctx.workflow_scope().cell<std::vector<std::int64_t>>(kGatheredCell);
  for (std::size_t taken = 0;; ++taken) {
    auto next =
        ctx.wait_until([&seen, taken] { return seen.size() > taken; }, milliseconds(pause_ms));
    static_cast<void>(co_await next);
    if (seen.size() == taken) {
      co_return;
    }
    const std::int64_t value = seen[taken];
    auto push =
        cell.update([value](std::vector<std::int64_t>& values) { values.push_back(value); });
    co_await push;
  }
}

Task<void> send(Engine& engine, const Gathering& gathering, std::int64_t value) {
  StartOptions options;
  options.id = gathering.id;
  options.queue = gathering.queue;
  const std::int64_t pause_ms = gathering.pause / milliseconds(1);
  const auto sent =
      co_await engine.start_or_signal(gather_workflow(), pause_ms, options, kGatherSignal, value);
  static_cast<void>(sent);
}

}  // namespace

Task<void> carry_out(Engine& engine, Wanted wanted, const Gathering& gathering,
                     std::shared_ptr<Errand::Answer> answer) {
  Errand::Verdict verdict = Errand::Verdict::kAcknowledged;
  try {
    co_await send(engine, gathering, wanted.value);
  } catch (const Error& error) {
    verdict = verdict_of(error, "run " + gathering.id, *answer);
  }
  answer->verdict = verdict;
}

const Workflow<std::int64_t, void>& gather_workflow() {
  static const auto gathers = workflow("gather", gather);
  return gathers;
}

}  // namespace holdfast::testing
