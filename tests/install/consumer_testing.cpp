// SPDX-License-Identifier: Apache-2.0
// A program outside the tree that tests a workflow.
#include <chrono>

#include <holdfast/testing.hpp>

namespace {

holdfast::Task<int> wait_and_count(holdfast::Context& ctx) {
  co_await ctx.sleep(std::chrono::hours(24));
  auto counting = ctx.run("count", [] { return 1; });
  const int count = co_await counting;
  co_return count;
}
const auto kWaitAndCount = holdfast::workflow("wait_and_count", wait_and_count);

}  // namespace

int main() {
  holdfast::testing::TestEngine world({kWaitAndCount});
  world.fake_step("count", 7);
  return world.result(world.start(kWaitAndCount)) == 7 ? 0 : 1;
}
