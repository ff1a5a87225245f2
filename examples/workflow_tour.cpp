// SPDX-License-Identifier: Apache-2.0
// What workflows can do besides steps and sleeps, one after the other; docs/workflows.md quotes it.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::StepContext;
using holdfast::Task;
using namespace std::chrono_literals;

// --- A long step ---------------------------------------------------------------------------------

// [import]
std::int64_t copy_rows(StepContext& step, std::int64_t count) {
  // A retry goes on where the attempt before it was, as far as it told.
  for (auto row = step.last_progress<std::int64_t>().value_or(0); row < count; ++row) {
    if (step.stop_token().stop_requested()) {
      throw holdfast::Cancelled("nobody waits for this attempt any more");
    }
    step.heartbeat(row);
  }
  return count;
}

Task<std::int64_t> import(Context& ctx, std::int64_t count) {
  const holdfast::StepOptions patient{
      .retry = {.attempts_max = 5, .pause_first = 2s, .factor = 2, .pause_max = 1min},
      .attempt_timeout = 1h,      // Of one attempt,
      .timeout = 6h,              // of all of them and the pauses.
      .heartbeat_timeout = 30s};  // Who is silent for longer counts as dead.
  auto copy = ctx.run("copy", [&](StepContext& step) { return copy_rows(step, count); }, patient);
  const std::int64_t copied = co_await copy;
  co_return copied;
}
const auto kImport = holdfast::workflow("import", import);
// [import]

// --- What comes from outside ---------------------------------------------------------------------

// [basket]
struct Basket {
  std::vector<std::string> items;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Basket, (), (items, cents))

struct Item {
  std::string name;
  std::int64_t cents = 0;
};
BOOST_DESCRIBE_STRUCT(Item, (), (name, cents))

Task<std::string> shopping(Context& ctx, Basket basket) {
  bool done = false;
  ctx.on_query<std::int64_t>("cents", [&] { return basket.cents; });
  ctx.on_update<Item, std::int64_t>(
      "add",
      [&](const Item& item) {
        basket.items.push_back(item.name);
        return basket.cents += item.cents;
      },
      [](const Item& item) {  // Before it happens; who is refused leaves no trace.
        if (item.cents <= 0) {
          throw std::invalid_argument("an item has a price");
        }
      });
  ctx.on_signal<std::string>("check_out", [&](const std::string& /*by*/) { done = true; });
  auto checked_out = ctx.wait_until([&] { return done; }, 24h);
  const bool in_time = co_await checked_out;
  co_return in_time ? "sold for " + std::to_string(basket.cents) : "left behind";
}
const auto kShopping = holdfast::workflow("shopping", shopping);
// [basket]

// --- Children, state, a loop without end ---------------------------------------------------------

// [children]
Task<std::int64_t> bake(Context& ctx, std::int64_t loaves) {
  auto baked = ctx.workflow_scope().cell<std::int64_t>("baked");  // Of all runs of this type.
  auto add = baked.update([&](std::int64_t& it) { it += loaves; });
  co_await add;
  co_return loaves;
}
const auto kBake = holdfast::workflow("bake", bake);

Task<std::int64_t> bakery(Context& ctx) {
  std::vector<holdfast::Durable<std::int64_t>> ovens;
  for (std::int64_t oven = 1; oven <= 3; ++oven) {
    ovens.push_back(ctx.child(kBake, 10 * oven, {.parent_close = holdfast::ParentClose::kCancel}));
  }
  std::int64_t loaves = 0;
  const std::vector<std::int64_t> counts = co_await ctx.all(std::move(ovens));
  for (const std::int64_t count : counts) {
    loaves += count;
  }
  co_return loaves;
}
const auto kBakery = holdfast::workflow("bakery", bakery);
// [children]

// [poll]
/// A loop that may go on for years: a new journal from time to time keeps it short.
Task<std::string> poll(Context& ctx, std::int64_t rounds_done) {
  constexpr int kRoundsPerRun = 100;
  for (int i = 0; i < kRoundsPerRun; ++i) {
    auto look = ctx.run("look", [&] { return rounds_done + i == 250 ? 1 : 0; });
    const int found = co_await look;
    if (found > 0) {
      co_return "found in round " + std::to_string(rounds_done + i);
    }
    co_await ctx.sleep(0s);  // A minute, in earnest.
  }
  ctx.continue_as_new(rounds_done + kRoundsPerRun);
}
const auto kPoll = holdfast::workflow("poll", poll);
// [poll]

// --- Changed code, cleanup -----------------------------------------------------------------------

// [version]
Task<std::string> greet(Context& ctx, std::string name) {
  // Runs that came by here before this line was written go on as they began.
  const std::int64_t version = ctx.version("polite greeting", 0, 1);
  std::string greeting = version == 0 ? "hi " : "good morning, ";
  co_return greeting + name;
}
const auto kGreet = holdfast::workflow("greet", greet);
// [version]

// [cleanup]
Task<void> close_gate(Context& ctx) {
  auto close = ctx.run("close gate", [] { std::puts("  the gate is closed"); });
  co_await close;
}

Task<void> cross(Context& ctx) {
  auto open = ctx.run("open gate", [] { std::puts("  the gate is open"); });
  co_await open;
  auto nobody = ctx.signal<bool>("nobody is here any more");
  auto crossed = co_await ctx.attempt(nobody);  // Throws nothing, a cancellation neither.
  co_await ctx.shielded(close_gate(ctx));       // To its end, though the run is asked to stop.
  crossed.rethrow();
}
const auto kCross = holdfast::workflow("cross", cross);
// [cleanup]

// --- All of it -----------------------------------------------------------------------------------

// [outside]
Task<std::string> shop(holdfast::Engine& engine) {
  const Basket empty;
  const auto run = co_await engine.start(kShopping, empty, {.id = "basket of Ada"});
  const Item pen{.name = "pen", .cents = 250};
  static_cast<void>(co_await engine.update<std::int64_t>(run.id(), "add", pen));
  const Item gift{.name = "gift", .cents = 0};
  try {
    static_cast<void>(co_await engine.update<std::int64_t>(run.id(), "add", gift));
  } catch (const holdfast::UpdateRefused& refused) {
    std::printf("  %s\n", refused.what());
  }
  const auto cents = co_await engine.query<std::int64_t>(run.id(), "cents");
  std::printf("  so far %lld\n", static_cast<long long>(cents));
  co_await engine.signal(run.id(), "check_out", std::string("Ada"));
  std::string end = co_await run.result();
  co_return end;
}
// [outside]

Task<void> play(holdfast::Engine& engine) {
  const auto importing = co_await engine.start(kImport, 10'000);
  const std::int64_t rows = co_await importing.result();
  std::printf("import: %lld rows\n", static_cast<long long>(rows));
  const std::string sold = co_await shop(engine);
  std::printf("shopping: %s\n", sold.c_str());
  const auto baking = co_await engine.start(kBakery);
  const std::int64_t loaves = co_await baking.result();
  std::printf("bakery: %lld loaves\n", static_cast<long long>(loaves));
  const auto polling = co_await engine.start(kPoll, 0);
  const std::string found = co_await polling.result();
  std::printf("poll: %s\n", found.c_str());
  const auto greeting = co_await engine.start(kGreet, "Ada");
  const std::string words = co_await greeting.result();
  std::printf("greet: %s\n", words.c_str());
  const auto crossing = co_await engine.start(kCross);
  co_await engine.cancel(crossing.id());
  try {
    co_await crossing.result();
  } catch (const holdfast::RunFailed& failed) {
    std::printf("cross: %s\n", failed.what());
  }
}

void serve(const std::string& url) {
  const auto store = holdfast::open_store(url);
  std::unique_ptr<holdfast::Session> session;  // Outlives the pool, on which its last tasks end.
  holdfast::ThreadPool pool(2);
  session = holdfast::sync_wait(pool, holdfast::Session::open(*store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kImport);
  engine.add(kShopping);
  engine.add(kBake);
  engine.add(kBakery);
  engine.add(kPoll);
  engine.add(kGreet);
  engine.add(kCross);
  holdfast::sync_wait(pool, engine.begin());
  holdfast::sync_wait(pool, play(engine));
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    serve(argc > 1 ? argv[1] : "sqlite:tour.db");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
