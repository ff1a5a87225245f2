// SPDX-License-Identifier: Apache-2.0
// What comes to a run from outside: signals, updates, queries; and waits for what they bring.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/store_error.hpp>
#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"

namespace holdfast::detail {
namespace {

using Numbers = std::vector<std::uint64_t>;

Task<boost::json::value> collect(Context& ctx, boost::json::value) {
  std::string words;
  co_await ctx.sleep(1s);
  ctx.on_signal<std::string>("word", [&](const std::string& word) { words += word; });
  co_await ctx.wait_until([&] { return words.size() >= 3; });
  co_return boost::json::value(words);
}

TEST(RunSignals, GoToTheHandlerInTheirOrderBeginningWithThoseKept) {
  Machine machine(collect);
  machine.step(started());
  machine.step({signalled("word", "a"), signalled("other", "x"), signalled("word", "b")});
  EXPECT_FALSE(machine.step(fired(0)).end);
  EXPECT_EQ(machine.step({signalled("word", "c"), signalled("word", "d")}).end->value, "abc")
      << "the predicate is asked after each event";
}

TEST(RunSignals, OfTheSameRequestCountOnce) {
  Machine machine(collect);
  machine.step(started());
  machine.step({signalled("word", "a", "r1"), signalled("word", "b", "r2")});
  machine.step({signalled("word", "a", "r1"), fired(0)});
  EXPECT_FALSE(machine.step(signalled("word", "b", "r2")).end);
  EXPECT_EQ(machine.step(signalled("word", "c", "r3")).end->value, "abc");
}

TEST(RunSignals, ThatTheHandlerRefusesStopTheRun) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    ctx.on_signal<int>("number", [](int) {});
    auto waited = co_await ctx.attempt(ctx.sleep(1h));
    co_await ctx.shielded(ctx.sleep(1s));  // There is time to clean up.
    waited.rethrow();
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(signalled("number", "word")).given_up, Numbers{0});
  EXPECT_NE(failure<BadPayload>(machine.step(fired(1))).find("number: expected a whole number"),
            std::string::npos);
}

TEST(RunSignals, HandlersBeginNothing) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    ctx.on_signal<void>("go", [&] { static_cast<void>(ctx.sleep(1s)); });
    co_await ctx.sleep(1h);
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step(signalled("go", nullptr));
  EXPECT_NE(failure<WrongContext>(activated).find("a handler of signals begins an operation"),
            std::string::npos);
}

// --- Waits for a condition -----------------------------------------------------------------------

Task<boost::json::value> wait_for_word(Context& ctx, boost::json::value) {
  std::string word;
  ctx.on_signal<std::string>("word", [&](std::string it) { word = std::move(it); });
  const bool came = co_await ctx.wait_until([&] { return !word.empty(); }, 1h);
  co_await ctx.sleep(1s);
  co_return boost::json::value(came ? word : "late");
}

TEST(RunWaitUntil, TellsWhetherItHappenedInTime) {
  Machine in_time(wait_for_word);
  ASSERT_EQ(in_time.step(started()).timers.size(), 1U);
  EXPECT_EQ(in_time.step(signalled("word", "yes")).given_up, Numbers{0});
  EXPECT_EQ(in_time.step(fired(1)).end->value, "yes");
  Machine late(wait_for_word);
  late.step(started());
  EXPECT_TRUE(late.step(fired(0)).given_up.empty());
  late.step(signalled("word", "yes"));
  EXPECT_EQ(late.step(fired(1)).end->value, "late");
}

TEST(RunWaitUntil, OfWhatIsTrueIsOverAtOnceAndTakesNoTimer) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_await ctx.wait_until([] { return true; });
    const bool first = co_await ctx.wait_until([] { return true; }, 1h);
    const bool second = co_await ctx.wait_until([] { return false; }, 0s);
    co_return first && !second;
  };
  Machine machine(body);
  const Activated activated = machine.step(started());
  EXPECT_TRUE(activated.timers.empty());
  EXPECT_EQ(activated.end->value, true);
}

TEST(RunWaitUntil, GoesOnOneAtATimeWhileItHolds) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    int free = 0;
    int inside_max = 0;
    int inside = 0;
    ctx.on_signal<void>("free", [&] { ++free; });
    const auto use = [](Context& context, int& slots, int& now, int& most) -> Task<void> {
      co_await context.wait_until([&] { return slots > 0; });
      --slots;
      most = std::max(most, ++now);
      co_await context.sleep(1s);
      --now;
    };
    static_cast<void>(
        co_await ctx.all(use(ctx, free, inside, inside_max), use(ctx, free, inside, inside_max)));
    co_return inside_max;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(machine.step(signalled("free", nullptr)).timers.size(), 1U);
  machine.step(fired(0));
  machine.step(signalled("free", nullptr));
  EXPECT_EQ(machine.step(fired(1)).end->value, 1);
}

TEST(RunWaitUntil, ChangesOfOnePartWakeAnother) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    int stage = 0;
    const auto advance = [](Context& context, int& at, int from) -> Task<void> {
      co_await context.wait_until([&at, from] { return at == from; });
      ++at;
    };
    auto last = advance(ctx, stage, 2);
    auto middle = advance(ctx, stage, 1);
    auto first = advance(ctx, stage, 0);
    static_cast<void>(co_await ctx.all(last, middle, first));
    co_return stage;
  };
  EXPECT_EQ(Machine(body).step(started()).end->value, 3);
}

TEST(RunWaitUntil, ThrowsWhatThePredicateThrows) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    bool broken = false;
    ctx.on_signal<void>("break", [&] { broken = true; });
    co_await ctx.wait_until([&] { return broken ? throw std::runtime_error("broken") : false; });
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_EQ(failure<std::runtime_error>(machine.step(signalled("break", nullptr))), "broken");
}

TEST(RunWaitUntil, IsCancelledAndAsksNoMore) {
  int asked = 0;
  const Body body = [&](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto waited = co_await ctx.attempt(ctx.wait_until([&] { return ++asked < 0; }));
    EXPECT_THROW(waited.rethrow(), Cancelled);
    co_await ctx.shielded(ctx.sleep(1s));
    co_return nullptr;
  };
  const CodeOf code(body);
  RunMachine machine(code, {"run-1", "test", nullptr});
  static_cast<void>(machine.activate(at(0s), {started()}));
  static_cast<void>(machine.activate(at(0s), {cancel()}));
  const int before = asked;
  EXPECT_TRUE(machine.activate(at(0s), {fired(0)}).end);
  EXPECT_EQ(asked, before);
}

TEST(RunWaitUntil, PredicatesBeginNothing) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    co_await ctx.wait_until([&] {
      static_cast<void>(ctx.sleep(1s));
      return true;
    });
    co_return nullptr;
  };
  EXPECT_NE(failure<WrongContext>(Machine(body).step(started())).find("a predicate of wait_until"),
            std::string::npos);
}

// --- Updates and queries -------------------------------------------------------------------------

Task<boost::json::value> counter(Context& ctx, boost::json::value) {
  int count = 0;
  bool done = false;
  ctx.on_update<int, int>(
      "add",
      [&](int by) {
        if (by == 13) {
          throw std::runtime_error("not thirteen");
        }
        return count += by;
      },
      [&](int by) {
        if (by < 0) {
          throw std::runtime_error("cannot go down");
        }
      });
  ctx.on_update<void, void>("finish", [&] { done = true; });
  ctx.on_query<int>("count", [&] { return count; });
  ctx.on_query<int, int>("times", [&](int factor) { return count * factor; });
  ctx.on_query<std::uint64_t>("random", [&] { return ctx.random(); });
  ctx.on_query<int>("begins", [&] {
    static_cast<void>(ctx.sleep(1s));
    return 0;
  });
  co_await ctx.wait_until([&] { return done; });
  co_return count;
}

TEST(RunUpdates, AreAnswered) {
  Machine machine(counter);
  machine.step(started());
  Activated activated = machine.step({updated("r1", "add", 5), updated("r2", "add", 2)});
  ASSERT_EQ(activated.replies.size(), 2U);
  EXPECT_EQ(activated.replies[0].request, "r1");
  EXPECT_EQ(activated.replies[0].value, 5);
  EXPECT_EQ(activated.replies[1].value, 7);
  activated = machine.step(updated("r3", "finish", nullptr));
  EXPECT_EQ(activated.replies.at(0).value, nullptr);
  EXPECT_EQ(activated.end->value, 7);
}

TEST(RunUpdates, OfTheSameRequestGetTheFirstReply) {
  Machine machine(counter);
  machine.step(started());
  machine.step({updated("r1", "add", 5), updated("r2", "add", 13)});
  const Activated activated =
      machine.step({updated("r1", "add", 5), updated("r2", "add", 13), updated("r3", "add", 1)});
  ASSERT_EQ(activated.replies.size(), 3U);
  EXPECT_EQ(activated.replies[0].value, 5);
  EXPECT_EQ(message_of(activated.replies[1].error), "not thirteen");
  EXPECT_EQ(activated.replies[2].value, 6);
}

TEST(RunUpdates, ThatFailOrAreNotKnownAreTold) {
  Machine machine(counter);
  machine.step(started());
  const Activated activated = machine.step(
      {updated("r1", "add", 13), updated("r2", "sub", 1), updated("r3", "add", "word")});
  ASSERT_EQ(activated.replies.size(), 3U);
  EXPECT_THROW(std::rethrow_exception(activated.replies[0].error), std::runtime_error);
  EXPECT_THROW(std::rethrow_exception(activated.replies[1].error), NoSuchHandler);
  EXPECT_EQ(message_of(activated.replies[1].error),
            "run 'run-1' has no update 'sub'; it has 'add', 'finish'");
  EXPECT_THROW(std::rethrow_exception(activated.replies[2].error), BadPayload);
  EXPECT_FALSE(activated.end);
}

TEST(RunUpdates, ThatComeBehindTheEndAreNotTaken) {
  Machine machine(counter);
  machine.step(started());
  const Activated activated =
      machine.step({updated("r1", "finish", nullptr), updated("r2", "add", 1)});
  EXPECT_EQ(activated.replies.size(), 1U);
  EXPECT_EQ(activated.record.events_size(), 1) << "whoever sent it learns that the run has ended";
}

/// Answers with texts of a given length, and goes on as another one when it is told to.
Task<boost::json::value> talker(Context& ctx, boost::json::value /*input*/) {
  bool done = false;
  ctx.on_update<std::size_t, std::string>("say", [](std::size_t length) {
    if (length == 0) {
      throw std::runtime_error("nothing to say");
    }
    return std::string(length, 'x');
  });
  ctx.on_update<void, void>("finish", [&] { done = true; });
  co_await ctx.wait_until([&] { return done; });
  ctx.continue_as_new(nullptr);
}

std::vector<record::RunAnswer> answers_of(Machine& machine) {
  return machine.step(updated("the end", "finish", nullptr)).end->answers;
}

TEST(RunUpdates, AreKnownToTheRunThatItGoesOnAs) {
  Machine machine(talker);
  machine.step(started());
  machine.step({updated("r1", "say", 2), updated("r2", "say", 0), updated("r3", "shout", 1)});
  RunMachine::Facts facts{"run-1", "test", nullptr};
  facts.answers = answers_of(machine);
  ASSERT_EQ(facts.answers.size(), 4U);
  EXPECT_EQ(facts.answers[0].request(), "r1") << "the oldest first";
  Machine next(counter, facts);
  next.step(started());
  EXPECT_TRUE(next.inner().knows_update("r2"));
  const Activated activated =
      next.step({updated("r1", "add", 1), updated("r2", "add", 1), updated("r3", "add", 1),
                 updated("the end", "finish", nullptr), updated("r4", "add", 1)});
  ASSERT_EQ(activated.replies.size(), 5U);
  EXPECT_EQ(activated.replies[0].value, "xx");
  EXPECT_THROW(std::rethrow_exception(activated.replies[1].error), StepFailed);
  EXPECT_EQ(message_of(activated.replies[1].error), "nothing to say");
  EXPECT_THROW(std::rethrow_exception(activated.replies[2].error), NoSuchHandler);
  EXPECT_EQ(activated.replies[3].value, nullptr);
  EXPECT_EQ(activated.replies[4].value, 1) << "none of the others was made again";
  EXPECT_FALSE(activated.end);
}

TEST(RunUpdates, ArePassedOnUpToALimit) {
  Machine machine(talker);
  machine.step(started());
  std::vector<Event> updates;
  for (std::size_t i = 0; i < kRequestsPassedOnMax + 5; ++i) {
    const std::string request = std::to_string(i);
    updates.push_back(updated(request.c_str(), "say", 1));
  }
  machine.step(updates);
  const std::vector<record::RunAnswer> answers = answers_of(machine);
  EXPECT_EQ(answers.size(), kRequestsPassedOnMax);
  EXPECT_EQ(answers.front().request(), "6") << "the last ones";
}

TEST(RunUpdates, WhoseAnswersAreTooLongToBePassedOnAreNotMadeAgain) {
  Machine machine(talker);
  machine.step(started());
  machine.step({updated("r1", "say", 2), updated("r2", "say", kAnswerBytesPassedOnMax),
                updated("r3", "say", 3)});
  RunMachine::Facts facts{"run-1", "test", nullptr};
  facts.answers = answers_of(machine);
  Machine next(counter, facts);
  next.step(started());
  const Activated activated = next.step({updated("r2", "add", 1), updated("r3", "add", 1)});
  EXPECT_THROW(std::rethrow_exception(activated.replies.at(0).error), OutcomeUnknown);
  EXPECT_EQ(activated.replies.at(1).value, "xxx");
  EXPECT_EQ(next.inner().query("count", nullptr), 0);
}

TEST(RunUpdates, WithAnswersThatAreTooLongFail) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    ctx.on_update<void, std::string>("all", [] { return std::string(kPayloadBytesMax, 'x'); });
    co_await ctx.sleep(1h);
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step(updated("r1", "all", nullptr));
  EXPECT_THROW(std::rethrow_exception(activated.replies.at(0).error), BadPayload);
}

TEST(RunUpdates, AreCheckedBeforeTheyHappen) {
  Machine machine(counter);
  machine.step(started());
  RunMachine& run = machine.inner();
  run.check_update("add", 1);
  run.check_update("finish", nullptr);
  EXPECT_THROW(run.check_update("sub", 1), NoSuchHandler);
  EXPECT_THROW(run.check_update("add", "word"), BadPayload);
  try {
    run.check_update("add", -1);
    ADD_FAILURE() << "it was taken";
  } catch (const UpdateRefused& error) {
    EXPECT_STREQ(error.what(), "cannot go down");
  }
  EXPECT_EQ(run.query("count", nullptr), 0) << "nothing has changed";
}

TEST(RunQueries, AreAnsweredAndChangeNothing) {
  Machine machine(counter);
  machine.step(started());
  machine.step(updated("r1", "add", 5));
  RunMachine& run = machine.inner();
  EXPECT_EQ(run.query("count", nullptr), 5);
  EXPECT_EQ(run.query("times", 3), 15);
  EXPECT_EQ(run.query("random", nullptr), run.query("random", nullptr));
  EXPECT_THROW(static_cast<void>(run.query("times", "word")), BadPayload);
  EXPECT_THROW(static_cast<void>(run.query("begins", nullptr)), WrongContext);
  EXPECT_THROW(static_cast<void>(run.query("nothing", nullptr)), NoSuchHandler);
  EXPECT_EQ(machine.step(updated("r2", "finish", nullptr)).end->value, 5);
}

TEST(RunQueries, OfARunThatHasEndedAreRefused) {
  Machine machine(counter);
  machine.step(started());
  machine.step(updated("r1", "finish", nullptr));
  EXPECT_THROW(static_cast<void>(machine.inner().query("count", nullptr)), NoSuchHandler);
  EXPECT_THROW(machine.inner().check_update("add", 1), NoSuchHandler);
}

}  // namespace
}  // namespace holdfast::detail
