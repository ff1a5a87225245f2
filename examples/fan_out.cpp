// SPDX-License-Identifier: Apache-2.0
// A thousand pictures, of which twenty at a time are made smaller. After a crash those that are
// done are not done again.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

namespace {

using holdfast::Context;
using holdfast::Task;
using namespace std::chrono_literals;

constexpr std::int64_t kPictures = 1'000;

std::atomic<int> at_work = 0;
std::atomic<int> at_work_most = 0;

/// What it takes to make one smaller; the bytes that it has then.
Task<std::int64_t> shrink(std::int64_t picture) {
  const int now = ++at_work;
  int most = at_work_most;
  while (most < now && !at_work_most.compare_exchange_weak(most, now)) {
  }
  co_await holdfast::this_task::sleep_for(1ms);
  --at_work;
  co_return 1'000 + picture;
}

// [fan_out]
Task<std::int64_t> shrink_one(Context& ctx, std::int64_t picture) {
  auto step = ctx.run("shrink", [picture] { return shrink(picture); });
  const std::int64_t bytes = co_await step;
  co_return bytes;
}

Task<std::int64_t> shrink_all(Context& ctx, std::int64_t count) {
  std::vector<Task<std::int64_t>> parts;
  parts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t picture = 0; picture < count; ++picture) {
    parts.push_back(shrink_one(ctx, picture));
  }
  const std::vector<std::int64_t> sizes = co_await ctx.all(std::move(parts), {.at_most = 20});
  std::int64_t total = 0;
  for (const std::int64_t bytes : sizes) {
    total += bytes;
  }
  co_return total;
}
const auto kShrinkAll = holdfast::workflow("shrink_all", shrink_all);
// [fan_out]

Task<std::int64_t> shrink_pictures(holdfast::Engine& engine) {
  const auto run = co_await engine.start(kShrinkAll, kPictures);
  const std::int64_t total = co_await run.result();
  co_return total;
}

std::int64_t serve(const std::string& url) {
  const auto store = holdfast::open_store(url);
  std::unique_ptr<holdfast::Session> session;  // Outlives the pool, on which its last tasks end.
  holdfast::ThreadPool pool(2);
  session = holdfast::sync_wait(pool, holdfast::Session::open(*store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kShrinkAll);
  holdfast::sync_wait(pool, engine.begin());
  const std::int64_t total = holdfast::sync_wait(pool, shrink_pictures(engine));
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::int64_t total = serve(argc > 1 ? argv[1] : "sqlite:pictures.db");
    std::printf("%lld pictures have %lld bytes now, and never more than 20 were at work: %s\n",
                static_cast<long long>(kPictures), static_cast<long long>(total),
                at_work_most <= 20 ? "true" : "false");
    return total == 1'499'500 && at_work_most <= 20 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
