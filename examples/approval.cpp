// SPDX-License-Identifier: Apache-2.0
// An expense waits for an answer, which comes as a signal, but not for ever.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <variant>

#include <holdfast/engine.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::Task;
using namespace std::chrono_literals;

// [approve]
struct Expense {
  std::string what;
  std::int64_t patience_ms = 0;
};
BOOST_DESCRIBE_STRUCT(Expense, (), (what, patience_ms))

struct Answer {
  std::string by;
  bool yes = false;
};
BOOST_DESCRIBE_STRUCT(Answer, (), (by, yes))

Task<std::string> approve(Context& ctx, Expense expense) {
  auto answer = ctx.signal<Answer>("answer");  // One that came before is kept.
  auto deadline = ctx.sleep(std::chrono::milliseconds(expense.patience_ms));
  const std::variant<Answer, std::monostate> first = co_await ctx.any(answer, deadline);
  if (first.index() == 1) {
    co_return expense.what + ": nobody answered in time";
  }
  const Answer& given = std::get<0>(first);
  co_return expense.what + ": " + given.by + (given.yes ? " said yes" : " said no");
}
const auto kApproval = holdfast::workflow("approve", approve);
// [approve]

// [ask]
Task<void> ask(holdfast::Engine& engine) {
  const Expense trip{.what = "a trip to Lund", .patience_ms = 3'600'000};
  const auto first = co_await engine.start(kApproval, trip);
  const Answer yes{.by = "Ada", .yes = true};
  // Durable when it returns. Sent twice under one request id, as after a lost answer, it counts
  // once.
  co_await engine.signal(first.id(), "answer", yes, "request-1");
  const std::string approved = co_await first.result();
  std::printf("%s\n", approved.c_str());

  const Expense boat{.what = "a boat", .patience_ms = 50};
  const auto second = co_await engine.start(kApproval, boat);
  const std::string refused = co_await second.result();
  std::printf("%s\n", refused.c_str());
}
// [ask]

void serve(const std::string& url) {
  const auto store = holdfast::open_store(url);
  std::unique_ptr<holdfast::Session> session;  // Outlives the pool, on which its last tasks end.
  holdfast::ThreadPool pool(2);
  session = holdfast::sync_wait(pool, holdfast::Session::open(*store));
  holdfast::Engine engine(*session, {.executor = &pool});
  engine.add(kApproval);
  holdfast::sync_wait(pool, engine.begin());
  holdfast::sync_wait(pool, ask(engine));
  holdfast::sync_wait(pool, engine.stop());
  holdfast::sync_wait(pool, session->close());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    serve(argc > 1 ? argv[1] : "sqlite:approvals.db");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
