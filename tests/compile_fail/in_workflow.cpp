// SPDX-License-Identifier: Apache-2.0
// What a workflow must not do. STATEMENT says which it is.
#include <coroutine>
#include <string>

#include <holdfast/saga.hpp>
#include <holdfast/workflow.hpp>

using namespace holdfast;
using namespace std::chrono_literals;

struct Undescribed {
  int member = 0;
};

Task<int> part(Context& ctx) {
  co_await ctx.sleep(1s);
  co_return 1;
}

Task<void> use(Context& ctx, std::string text) {
  static_cast<void>(text);
#ifdef HOLDFAST_SAMPLE_IS_GOOD
  auto step = ctx.run("step", [text] { return text; });
  auto other = ctx.run("other", [text] { return text; });
  static_cast<void>(co_await ctx.all(step, other, part(ctx), ctx.sleep(1s)));
  co_await ctx.run("third", [&text] { text.clear(); });
  co_await ctx.wait_until([&] { return text.empty(); });
#else
  STATEMENT;
  co_return;
#endif
}
