// SPDX-License-Identifier: Apache-2.0
#include <holdfast/replay.hpp>

#include <gtest/gtest.h>

#include <string>

#include <holdfast/workflow.hpp>

#include "run_by_hand.hpp"

namespace holdfast {
namespace {

using detail::at;
using namespace std::chrono_literals;

Task<int> double_it(Context& ctx, int input) {
  auto step = ctx.run("double", [&] { return 2 * input; });
  const int doubled = co_await step;
  co_await ctx.sleep(1h);
  co_return doubled;
}
Task<int> triple_it(Context& ctx, int input) {
  auto step = ctx.run("triple", [&] { return 3 * input; });
  const int tripled = co_await step;
  co_return tripled;
}

RecordedRun recorded() {
  const auto flow = workflow("double", double_it);
  RecordedRun run{.id = "run-1", .type = "double", .input = 21, .uid = "u", .started_at = at(0s)};
  detail::RunMachine machine(*flow.code(), {"run-1", "double", 21, "u"});
  run.rows.push_back(machine.activate(at(0s), {detail::started()}).record.SerializeAsString());
  run.rows.push_back(machine.activate(at(1s), {detail::ended(0, 42)}).record.SerializeAsString());
  run.rows.push_back(machine.activate(at(1h), {detail::fired(1)}).record.SerializeAsString());
  return run;
}

TEST(RecordedRuns, AreTheSameAsAText) {
  RecordedRun run = recorded();
  run.requests_done = {"first", "second"};
  run.answers = {std::string("\0\xff", 2), "second"};
  run.root_uid = "top";
  const RecordedRun again = RecordedRun::from_text("# a comment\n\n" + run.to_text());
  EXPECT_EQ(again.id, run.id);
  EXPECT_EQ(again.type, run.type);
  EXPECT_EQ(again.uid, run.uid);
  EXPECT_EQ(again.input, run.input);
  EXPECT_EQ(again.started_at, run.started_at);
  EXPECT_EQ(again.rows, run.rows);
  EXPECT_EQ(again.requests_done, run.requests_done);
  EXPECT_EQ(again.answers, run.answers);
  EXPECT_EQ(again.root_uid, run.root_uid);
  EXPECT_EQ(again.to_text(), run.to_text());
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(RecordedRun::from_text(text));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "none";
}

TEST(RecordedRuns, ThatAreDamagedAreRefusedWithTheLine) {
  const std::string text = recorded().to_text();
  EXPECT_EQ(refusal(""), "the recorded run is empty");
  EXPECT_NE(refusal("# x\n{\"id\":1}\n").find("damaged at line 2"), std::string::npos);
  EXPECT_NE(refusal(text + "0g\n").find("line 5: expected a row in hexadecimal"),
            std::string::npos);
  EXPECT_NE(refusal(text + "123\n").find("line 5"), std::string::npos);
  EXPECT_NE(refusal("{\"holdfast_run\":1,\"id\":\"x\"}").find("no text 'type'"), std::string::npos);
  EXPECT_THROW(static_cast<void>(RecordedRun::from_text("{\"holdfast_run\":2}")), NewerFormat);
}

TEST(ReplayCheck, SaysThatCodeFits) {
  const ReplayVerdict verdict = check_replay(workflow("double", double_it), recorded());
  EXPECT_TRUE(verdict) << verdict.complaint;
  EXPECT_TRUE(verdict.ended);
  EXPECT_EQ(verdict.rows, 3U);
  RecordedRun open = recorded();
  open.rows.pop_back();
  EXPECT_TRUE(check_replay(workflow("double", double_it), open));
  EXPECT_FALSE(check_replay(workflow("double", double_it), open).ended);
}

TEST(ReplayCheck, SaysWhereCodeStrays) {
  const ReplayVerdict verdict = check_replay(workflow("double", triple_it), recorded());
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.rows, 0U);
  EXPECT_EQ(verdict.complaint,
            "run 'run-1' (double): at row 0 of the journal, operation 0, it has step 'double', and "
            "the code comes to step 'triple'");
}

TEST(ReplayCheck, RefusesRunsOfOtherWorkflowsAndDamagedRows) {
  EXPECT_THROW(static_cast<void>(check_replay(workflow("other", double_it), recorded())),
               InvalidArgument);
  RecordedRun damaged = recorded();
  damaged.rows[1] = "nonsense";
  EXPECT_THROW(static_cast<void>(check_replay(workflow("double", double_it), damaged)),
               InvalidArgument);
}

}  // namespace
}  // namespace holdfast
