// SPDX-License-Identifier: Apache-2.0
#include "tests/runs/jobs.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace holdfast::testing {

using namespace std::chrono_literals;

EffectLedger* effect_ledger = nullptr;

Task<void> EffectLedger::enter(std::string key, std::string name) {
  std::string attempt = "attempt/" + key;
  attempt.append("/").append(process_).append("/").append(std::to_string(++attempts_));
  Batch asked;
  asked.put(attempt, name);
  static_cast<void>(co_await store_.commit(std::move(asked)));
  Batch effect;
  effect.require_absent("effect/" + key).put("effect/" + key, name);
  static_cast<void>(co_await store_.commit(std::move(effect)));
}

namespace {

std::string effect_name(const std::string& job, std::int64_t round) {
  return job + "/" + std::to_string(round);
}

Task<void> one_round(Context& ctx, std::string job, std::int64_t round) {
  auto effect =
      ctx.run("effect",
              [&](StepContext& step) {
                if (round % 4 == 3 && step.attempt() == 1) {
                  throw std::runtime_error("not at the first attempt");
                }
                return effect_ledger->enter(step.idempotency_key(), effect_name(job, round));
              },
              {.retry = {.pause_first = 5ms}});
  co_await effect;
  auto sum = ctx.global().cell<std::int64_t>(kSumCell);
  auto add = sum.update([round](std::int64_t& it) { it += round; });
  co_await add;
  if (round % 2 == 0) {
    co_await ctx.sleep(10ms);
  } else {
    auto block = ctx.run("block", [] { std::this_thread::sleep_for(2ms); });
    co_await block;
  }
}

Task<std::int64_t> rounds(Context& ctx, Job job) {
  std::int64_t total = 0;
  for (std::int64_t round = 1; round <= job.rounds; ++round) {
    co_await one_round(ctx, job.name, round);
    total += round;
  }
  co_return total;
}

Task<std::int64_t> family(Context& ctx, Job job) {
  const Job first{.name = job.name + "/a", .rounds = job.rounds};
  const Job second{.name = job.name + "/b", .rounds = job.rounds};
  auto one = ctx.child(kRoundsJob, first);
  auto other = ctx.child(kRoundsJob, second);
  const auto [a, b] = co_await ctx.all(one, other);
  co_return a + b;
}

Task<std::int64_t> signals(Context& ctx, Job job) {
  std::int64_t total = 0;
  for (std::int64_t i = 1; i <= job.rounds; ++i) {
    const auto round = co_await ctx.signal<std::int64_t>("round");
    co_await one_round(ctx, job.name, round);
    total += round;
  }
  co_return total;
}

Task<std::int64_t> chain(Context& ctx, ChainJob chain) {
  if (chain.done == chain.job.rounds) {
    co_return sum_of(chain.job.rounds);
  }
  ++chain.done;
  co_await one_round(ctx, chain.job.name, chain.done);
  ctx.continue_as_new(chain);
}

}  // namespace

const Workflow<Job, std::int64_t> kRoundsJob = workflow("rounds", rounds);
const Workflow<Job, std::int64_t> kFamilyJob = workflow("family", family);
const Workflow<Job, std::int64_t> kSignalJob = workflow("signals", signals);
const Workflow<ChainJob, std::int64_t> kChainJob = workflow("chain", chain);

}  // namespace holdfast::testing
