// SPDX-License-Identifier: Apache-2.0
#include "demo.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/error.hpp>

namespace holdfast::cli {
namespace {

using examples::Scenario;
using examples::Stage;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

void pass(Stage& stage) {
  stage.say("here we go");
  stage.progress(1, 2);
  stage.check("one and one is two", true);
}
void fail(Stage& stage) { stage.check("one and one is three", false); }
void throw_error(Stage& /*stage*/) { throw std::runtime_error("out of luck"); }
void throw_number(Stage& /*stage*/) { throw 42; }
void cancel(Stage& /*stage*/) { throw Cancelled("asked to stop"); }

constexpr Scenario kPass{.name = "pass", .summary = "it passes", .play = pass};
constexpr Scenario kFail{.name = "fail", .summary = "it fails", .play = fail};
constexpr Scenario kThrow{.name = "throw", .summary = "it throws", .play = throw_error};
constexpr Scenario kThrowNumber{.name = "number", .summary = "a number", .play = throw_number};
constexpr Scenario kCancel{.name = "cancel", .summary = "it is stopped", .play = cancel};

class Demo : public testing::Test {
 protected:
  Demo() { EXPECT_EQ(pipe(pipe_.data()), 0); }
  ~Demo() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  bool play(const std::vector<Scenario>& scenarios, TerminalTraits traits = {}) {
    bool passed = false;
    {
      Terminal terminal(pipe_[1], traits);
      passed = play_demo(terminal, scenarios, stop_.get_token());
    }
    std::array<char, 16384> buffer{};
    const ssize_t size = read(pipe_[0], buffer.data(), buffer.size());
    output_.assign(buffer.data(), static_cast<std::size_t>(size));
    return passed;
  }

  std::array<int, 2> pipe_{};
  std::stop_source stop_;
  std::string output_;
};

TEST_F(Demo, TellsWhatHappensAndEndsWithWhatWasChecked) {
  EXPECT_TRUE(play({kPass, kPass}));
  EXPECT_EQ(output_,
            "pass: it passes\n"
            "  here we go\n"
            "pass: it passes\n"
            "  here we go\n"
            "\n"
            "What was checked\n"
            "  ok     pass  one and one is two\n"
            "  ok     pass  one and one is two\n"
            "2 checks, all passed\n");
}

TEST_F(Demo, AFailedCheckFailsTheDemo) {
  EXPECT_FALSE(play({kFail, kPass}));
  EXPECT_THAT(output_, AllOf(HasSubstr("  FAILED fail  one and one is three\n"),
                             HasSubstr("  ok     pass  one and one is two\n"),
                             HasSubstr("2 checks, 1 failed\n")));
}

TEST_F(Demo, AScenarioThatThrowsIsReportedAndTheOthersStillPlay) {
  EXPECT_FALSE(play({kThrow, kThrowNumber, kPass}));
  EXPECT_THAT(
      output_,
      AllOf(HasSubstr("throw: it throws\n  failed: out of luck\n"),
            HasSubstr("  FAILED throw   it did not come to its end: out of luck\n"),
            HasSubstr("  FAILED number  it did not come to its end: an exception of an unknown"),
            HasSubstr("  ok     pass    one and one is two\n"), HasSubstr("3 checks, 2 failed\n")));
}

TEST_F(Demo, AStopEndsItWithWhatWasCheckedSoFar) {
  stop_.request_stop();
  EXPECT_TRUE(play({kPass, kCancel, kFail}));
  EXPECT_THAT(output_, AllOf(HasSubstr("1 check, all passed\n"),
                             HasSubstr("interrupted: 1 of 3 scenarios played to their end\n"),
                             Not(HasSubstr("it fails"))));
}

TEST_F(Demo, ACancellationThatNobodyAskedForIsAFailure) {
  EXPECT_FALSE(play({kCancel}));
  EXPECT_THAT(output_, HasSubstr("it did not come to its end: asked to stop"));
}

TEST_F(Demo, DrawsABarWhereALineCanBeDrawnAgain) {
  EXPECT_TRUE(play({kPass}, {.live = true}));
  EXPECT_THAT(output_, HasSubstr("\r\x1b[K  ####################.................... 1/2\r\x1b[K"));
}

TEST_F(Demo, UsesColoursAndSignsWhereThereAreSome) {
  EXPECT_FALSE(play({kPass, kFail}, {.live = true, .colour = true, .utf8 = true}));
  EXPECT_THAT(output_,
              AllOf(HasSubstr("\x1b[32m✓\x1b[0m pass"), HasSubstr("\x1b[31m✗\x1b[0m fail")));
}

TEST(Terminal, TellsOnceThatItsOutputIsLost) {
  int lost = 0;
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  Terminal terminal(fd, {}, [&] { ++lost; });
  terminal.line("first");
  terminal.line("second");
  EXPECT_EQ(terminal.error(), ENOSPC);
  EXPECT_EQ(lost, 1);
  close(fd);
}

}  // namespace
}  // namespace holdfast::cli
