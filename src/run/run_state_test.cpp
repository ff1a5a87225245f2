// SPDX-License-Identifier: Apache-2.0
// Cells, as a run uses them.
#include <gtest/gtest.h>

#include <boost/describe/class.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/state.hpp>
#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"
#include "run_failure.hpp"

namespace holdfast::detail {
namespace {

struct Profile {
  std::string name;
  std::int64_t visits = 0;
};
BOOST_DESCRIBE_STRUCT(Profile, (), (name, visits))

/// A store of cells as an engine has it: does what an activation asks for, and holds the answers.
class Cells {
 public:
  std::map<std::string, boost::json::value> values;
  int writes = 0;

  void commit(Machine& machine, Activated& activated) {
    std::vector<Event> held;
    for (BegunStateAccess& access : activated.state) {
      held.push_back(apply(access));
    }
    if (!activated.end) {
      machine.hold(std::move(held));
    }
  }

 private:
  Event apply(BegunStateAccess& access) {
    std::optional<boost::json::value> current;
    if (const auto found = values.find(access.key); found != values.end()) {
      current = found->second;
    }
    Event event = event_of(Event::STATE_SETTLED, access.operation);
    try {
      const StateCode::Change change = access.code->apply(current);
      writes += change.writes ? 1 : 0;
      if (change.writes && change.value) {
        values[access.key] = *change.value;
      } else if (change.writes) {
        values.erase(access.key);
      }
      return with(event, change.answer);
    } catch (...) {
      *event.mutable_failure() = failure_of(std::current_exception());
      return event;
    }
  }
};

/// From the start to the end.
Activated run_with(Cells& cells, const Body& body) {
  Machine machine(body);
  Activated activated = machine.step(started());
  cells.commit(machine, activated);
  while (!activated.end && machine.inner().has_held()) {
    activated = machine.step(std::vector<Event>());
    cells.commit(machine, activated);
  }
  return activated;
}

TEST(RunState, ReadsWritesUpdatesAndErases) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto count = ctx.state<int>("count", 10);
    const int before = co_await count.get();
    co_await count.set(20);
    const int changed = co_await count.update([](int& it) { it += 1; });
    const int replaced = co_await count.update([](int it) { return it * 2; });
    const std::string answer = co_await count.update([](int& it) {
      it += 1;
      return std::string("seen");
    });
    const int last = co_await count.get();
    const bool erased = co_await count.erase();
    const bool again = co_await count.erase();
    const int after = co_await count.get();
    EXPECT_EQ(answer, "seen");
    EXPECT_TRUE(erased && !again);
    co_return boost::json::value{before, changed, replaced, last, after};
  };
  Cells cells;
  EXPECT_EQ(run_with(cells, body).end->value, boost::json::value({10, 21, 42, 43, 10}));
  EXPECT_TRUE(cells.values.empty());
  EXPECT_EQ(cells.writes, 5);
}

TEST(RunState, ChangesThatChangeNothingWriteNothing) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto count = ctx.state<int>("count", 10);
    static_cast<void>(co_await count.update([](int&) {}));
    co_await count.set(10);
    co_await count.set(10);
    static_cast<void>(co_await count.update([](int it) { return it; }));
    co_return nullptr;
  };
  Cells cells;
  EXPECT_TRUE(run_with(cells, body).end);
  EXPECT_EQ(cells.writes, 1) << "to set it is a write, though it is what it was before the first";
}

TEST(RunState, HasTheKeysOfItsScopes) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    std::vector<std::string> keys{
        ctx.state<int>("a").key(),
        ctx.execution().cell<int>("a").key(),
        ctx.workflow_scope().cell<int>("a").key(),
        ctx.global().cell<int>("a").key(),
        ctx.request("1").cell<int>("a").key(),
        ctx.session("1").cell<int>("a").key(),
        ctx.user("1").cell<int>("a").key(),
        ctx.org("1").cell<int>("a").key(),
    };
    co_return boost::json::value_from(keys);
  };
  const State state;
  const std::vector<std::string> expected{
      state.execution("top").key_of("a"), state.execution("top").key_of("a"),
      state.workflow("test").key_of("a"), state.global().key_of("a"),
      state.request("1").key_of("a"),     state.session("1").key_of("a"),
      state.user("1").key_of("a"),        state.org("1").key_of("a")};
  RunMachine::Facts facts{"run-1", "test", nullptr, "uid", "root"};
  facts.root_uid = "top";
  Machine machine(body, facts);
  EXPECT_EQ(machine.step(started()).end->value, boost::json::value_from(expected));
}

TEST(RunState, OfAnotherTypeThrowsBadPayload) {
  for (const bool update : {false, true}) {
    const Body body = [update](Context& ctx, boost::json::value) -> Task<boost::json::value> {
      auto profile = ctx.user("1").cell<Profile>("profile");
      if (update) {
        static_cast<void>(co_await profile.update([](Profile& it) { ++it.visits; }));
      } else {
        static_cast<void>(co_await profile.get());
      }
      co_return nullptr;
    };
    Cells cells;
    cells.values["cell/user/1/profile"] = boost::json::value{{"name", "x"}, {"visits", "many"}};
    EXPECT_NE(failure<BadPayload>(run_with(cells, body))
                  .find("cell/user/1/profile.visits: expected a whole number, and it is a string"),
              std::string::npos);
    EXPECT_EQ(cells.writes, 0);
  }
}

TEST(RunState, ThrowsWhatTheFunctionThrewAndChangesNothing) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    auto count = ctx.state<int>("count");
    static_cast<void>(co_await count.update([](int& it) {
      it = 7;
      throw std::runtime_error("refused");
    }));
    co_return nullptr;
  };
  Cells cells;
  EXPECT_EQ(failure<StepFailed>(run_with(cells, body)), "refused");
  EXPECT_TRUE(cells.values.empty());
}

TEST(RunState, RefusesNamesThatCannotBe) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    static_cast<void>(co_await ctx.state<int>("").get());
    co_return nullptr;
  };
  EXPECT_THROW(std::rethrow_exception(Machine(body).step(started()).end->error), InvalidArgument);
}

TEST(RunState, OfAnotherCellIsTold) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int one = co_await ctx.state<int>("one").get();
    co_return one;
  };
  const Body changed = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    const int two = co_await ctx.state<int>("two").get();
    co_return two;
  };
  Machine machine(body);
  machine.step(started());
  EXPECT_NE(
      complaint(machine.journal, changed)
          .find("it has a use of cell 'cell/execution/run-1/one', and the code comes to a use "
                "of cell 'cell/execution/run-1/two'"),
      std::string::npos);
}

TEST(RunState, OneThatIsCancelledBeforeTheCommitIsNotDone) {
  const Body body = [](Context& ctx, boost::json::value) -> Task<boost::json::value> {
    static_cast<void>(co_await ctx.attempt(ctx.sleep(1h)));
    auto count = ctx.state<int>("count");
    auto kept = ctx.state<int>("kept");
    auto write = kept.set(1);  // Nobody waits for it: it goes on by itself.
    co_await count.set(1);
    co_return nullptr;
  };
  Machine machine(body);
  machine.step(started());
  const Activated activated = machine.step(cancel());
  ASSERT_EQ(activated.state.size(), 1U);
  EXPECT_EQ(activated.state[0].key, "cell/execution/run-1/kept");
  EXPECT_THROW(std::rethrow_exception(activated.end->error), Cancelled);
}

}  // namespace
}  // namespace holdfast::detail
