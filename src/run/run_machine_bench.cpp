// SPDX-License-Identifier: Apache-2.0
// How long it takes to go over an operation of a journal again, against reading it.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/workflow.hpp>

#include "benchmarks/harness.hpp"
#include "run_machine.hpp"

namespace holdfast::bench {

namespace {

using detail::RunMachine;
using record::Activation;
using record::RunEvent;

constexpr std::int64_t kOperations = 10'000;

/// One after the other.
class Steps final : public detail::WorkflowCode {
 public:
  [[nodiscard]] Task<boost::json::value> run(Context& context,
                                             boost::json::value /*input*/) const override {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < kOperations; ++i) {
      auto step = context.run("step", [] { return std::int64_t{1}; });
      sum += co_await step;
    }
    co_return sum;
  }
};

/// All at once.
class Timers final : public detail::WorkflowCode {
 public:
  [[nodiscard]] Task<boost::json::value> run(Context& context,
                                             boost::json::value /*input*/) const override {
    std::vector<Durable<void>> sleeps;
    for (std::int64_t i = 0; i < kOperations; ++i) {
      sleeps.push_back(context.sleep(std::chrono::seconds(i + 1)));
    }
    co_await context.all(std::move(sleeps));
    co_return nullptr;
  }
};

RunEvent event_of(RunEvent::Kind kind, std::uint64_t operation) {
  RunEvent event;
  event.set_kind(kind);
  event.set_operation(operation);
  if (kind == RunEvent::STEP_ENDED) {
    event.set_payload("1");
  }
  return event;
}

/// The journal of a run in which each operation ends in an activation of its own.
std::vector<Activation> journal_of(const detail::WorkflowCode& code, RunEvent::Kind kind) {
  RunMachine machine(code, {"run-1", "bench", nullptr});
  std::vector<Activation> journal;
  journal.push_back(machine.activate(StoreTime(), {event_of(RunEvent::STARTED, 0)}).record);
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    journal.push_back(machine.activate(StoreTime(), {event_of(kind, i)}).record);
  }
  require(machine.has_ended(), "the run that is to be replayed has not ended");
  return journal;
}

template <typename Code>
double replay(RunEvent::Kind kind) {
  const Code code;
  const std::vector<Activation> journal = journal_of(code, kind);
  const Stopwatch watch;
  RunMachine machine(code, {"run-1", "bench", nullptr});
  for (const Activation& row : journal) {
    static_cast<void>(machine.replay(row));
  }
  const double elapsed = watch.elapsed_ns();
  require(machine.has_ended(), "the replay has not come to the end");
  return elapsed / static_cast<double>(kOperations);
}

template <typename Code>
double read(RunEvent::Kind kind) {
  std::vector<std::string> rows;
  for (const Activation& row : journal_of(Code(), kind)) {
    rows.push_back(row.SerializeAsString());
  }
  const Stopwatch watch;
  bool all = true;
  for (const std::string& row : rows) {
    Activation read;
    all = read.ParseFromString(row) && all;
    keep(read);
  }
  const double elapsed = watch.elapsed_ns();
  require(all, "a row was not read");
  return elapsed / static_cast<double>(kOperations);
}

constexpr double kNsMax = 1'000;  // A million operations in a second.

const Registration kSteps({.suite = "run",
                           .name = "replay_steps",
                           .ours = [] { return replay<Steps>(RunEvent::STEP_ENDED); },
                           .peer = [] { return read<Steps>(RunEvent::STEP_ENDED); },
                           .peer_name = "protobuf reads the rows",
                           .limit = {.ours_max = kNsMax}});
const Registration kTimers({.suite = "run",
                            .name = "replay_timers_at_once",
                            .ours = [] { return replay<Timers>(RunEvent::TIMER_FIRED); },
                            .peer = [] { return read<Timers>(RunEvent::TIMER_FIRED); },
                            .peer_name = "protobuf reads the rows"});

}  // namespace

}  // namespace holdfast::bench
