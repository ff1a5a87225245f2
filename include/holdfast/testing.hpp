// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/replay.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/step_fake.hpp>
#include <holdfast/store.hpp>
#include <holdfast/wall_clock.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast::detail {
class TestWorld;
}

/// For the unit tests of those who write workflows, with any test framework.
namespace holdfast::testing {

/// What was waited for will not come: nothing is under way, and no time changes that. The message
/// says what the run waits for.
class StuckRun final : public holdfast::detail::ErrorOf<ErrorCode::kWrongContext> {
  using ErrorOf::ErrorOf;
};

/// A scenario went wrong after a crash. The message says at which commit, and how to see it again.
class CrashFound final : public holdfast::detail::ErrorOf<ErrorCode::kWrongContext> {
  using ErrorOf::ErrorOf;
};

/// A workflow, with its types taken off.
class AnyWorkflow {
 public:
  template <Payload In, Payload Out>
  AnyWorkflow(const Workflow<In, Out>& workflow)  // NOLINT(*-explicit-*): for lists in braces
      : name_(workflow.name()), code_(workflow.code()), admission_(workflow.admission()) {}
  template <Payload In, Payload All, Payload Out>
  AnyWorkflow(const Collected<In, All, Out>& collected)  // NOLINT(*-explicit-*): likewise
      : AnyWorkflow(collected.workflow()) {}
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::shared_ptr<const holdfast::detail::WorkflowCode>& code() const noexcept {
    return code_;
  }
  [[nodiscard]] const std::shared_ptr<const holdfast::detail::Admission>& admission()
      const noexcept {
    return admission_;
  }

 private:
  std::string name_;
  std::shared_ptr<const holdfast::detail::WorkflowCode> code_;
  std::shared_ptr<const holdfast::detail::Admission> admission_;
};

/// Trivially destructible on purpose, as `WaitOptions`. `queue` is copied at the call.
struct TestOptions {
  /// The same seed makes the same ids and the same order. Not zero.
  std::uint64_t seed = 1;
  /// What is ready runs in an order that is up to the seed; otherwise first come, first served.
  bool shuffle = false;
  /// Runs that wait leave the memory at once, so that their code is replayed whenever it goes on:
  /// what is not the same again is found by the first test that sleeps.
  bool forget_waiting = true;
  /// How much time may pass, at most, while a result is waited for.
  Duration patience = std::chrono::hours(2 * 366 * 24);
  /// And how often a step may fail meanwhile.
  std::uint32_t attempts_max = 20'000;
  std::string_view queue = "default";
};

/// A run of a `TestEngine`; also of its copies, and after a crash.
template <Payload Out>
class TestRun {
 public:
  explicit TestRun(std::string id) : id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const noexcept { return id_; }

 private:
  std::string id_;
};

/// A run by its id, or by what `TestEngine::start` returned.
class RunId {
 public:
  template <Payload Out>
  RunId(const TestRun<Out>& run) : id_(run.id()) {}  // NOLINT(*-explicit-*)
  RunId(std::string id) : id_(std::move(id)) {}      // NOLINT(*-explicit-*)
  RunId(std::string_view id) : id_(id) {}            // NOLINT(*-explicit-*)
  RunId(const char* id) : id_(id) {}                 // NOLINT(*-explicit-*)
  [[nodiscard]] const std::string& text() const noexcept { return id_; }

 private:
  std::string id_;
};

/// An engine in a world of its own: a store in memory, virtual time, one thread. What it is asked
/// happens before the call returns, with all that follows from it at that moment; time passes in
/// `skip` and `result` alone.
///
/// ```
/// TestEngine world({fulfilment});
/// world.fake_step("charge", [](StepCall& call) { return Payment{call.idempotency_key()}; });
/// const auto run = world.start(fulfilment, order, {.id = "order-1"});
/// world.skip(24h);
/// world.signal(run, "approved", true);
/// const Receipt receipt = world.result(run);
/// ```
///
/// A call during which the process dies (`crash_at_commit`) is made again on what was durable, with
/// the same keys: so what was done before the crash is not done twice. For one thread. What fakes
/// refer to outlives the world.
class TestEngine {
 public:
  /// Throws `InvalidArgument` if two workflows have one name, or the seed is zero.
  explicit TestEngine(std::vector<AnyWorkflow> workflows, const TestOptions& options = {});
  /// A world that begins with what a store has, at the store's time, as if all its processes had
  /// just died: to try a run that is stuck in production against other code, with its steps faked.
  /// The store is read only. Throws `StoreBusy` if it changes faster than it can be read: back it
  /// up, and open that.
  [[nodiscard]] static TestEngine on_copy_of(Store& store, std::vector<AnyWorkflow> workflows,
                                             const TestOptions& options = {});
  TestEngine(TestEngine&& other) noexcept;
  TestEngine& operator=(TestEngine&&) = delete;
  ~TestEngine();

  /// Another world with the same rows, at the same time, with the fakes as they are now: what is
  /// done there does not happen here. Calls are counted anew.
  [[nodiscard]] TestEngine copy();

  // --- Steps -------------------------------------------------------------------------------------

  /// From now on steps of this name, of all workflows, do this instead. `fake` takes nothing, a
  /// `StepCall&` or a `StepContext&`, and returns what the step returns, or a `Task` of it, in
  /// which time may pass (`this_task::sleep_for`); or it is that value. What it throws is tried
  /// again as the step's options say, and time-outs and heartbeats count.
  template <typename Fake>
  void fake_step(std::string_view name, Fake fake) {
    set_fake(name, holdfast::detail::step_fake_of(std::move(fake)));
  }
  /// From now on a step without a fake is a mistake of the test: the call in which it comes to that
  /// throws `WrongContext`, naming it.
  void forbid_real_steps();
  /// How many attempts were made at steps of this name, faked or not.
  [[nodiscard]] std::uint64_t calls(std::string_view step) const;
  /// Fakes that nobody has called: a name that was misspelt, most likely.
  [[nodiscard]] std::vector<std::string> unused_fakes() const;

  // --- Runs: see `Engine` ------------------------------------------------------------------------

  template <Payload In, Payload Out>
    requires(!std::is_void_v<In>)
  TestRun<Out> start(const Workflow<In, Out>& workflow, const std::type_identity_t<In>& input,
                     const StartOptions& options = {}) {
    return TestRun<Out>(start_run(workflow.name(), holdfast::detail::to_payload(input), options));
  }
  template <Payload Out>
  TestRun<Out> start(const Workflow<void, Out>& workflow, const StartOptions& options = {}) {
    return TestRun<Out>(start_run(workflow.name(), nullptr, options));
  }
  /// One that is there already, as in a copy.
  template <Payload In, Payload Out>
  [[nodiscard]] TestRun<Out> find(const Workflow<In, Out>& /*workflow*/,
                                  std::string_view id) const {
    return TestRun<Out>(std::string(id));
  }
  /// Lets time pass as far as is needed. Throws `RunFailed`, `NoSuchRun`; `StuckRun` if the run
  /// waits for what will not come, such as a signal, or the patience of the test is over.
  template <Payload Out>
  Out result(const TestRun<Out>& run) {
    return holdfast::detail::from_payload<Out>(result_of(run.id()), "result");
  }
  template <typename T>
  void signal(const RunId& run, std::string_view name, const T& payload) {
    send_signal(run.text(), name, holdfast::detail::to_payload(payload));
  }
  template <Payload Out, typename In = std::nullptr_t>
  Out query(const RunId& run, std::string_view name, const In& payload = {}) {
    return holdfast::detail::from_payload<Out>(
        ask(run.text(), name, holdfast::detail::to_payload(payload), false), name);
  }
  template <Payload Out, typename In>
  Out update(const RunId& run, std::string_view name, const In& payload) {
    return holdfast::detail::from_payload<Out>(
        ask(run.text(), name, holdfast::detail::to_payload(payload), true), name);
  }
  void cancel(const RunId& run);
  void terminate(const RunId& run, std::string_view reason);
  [[nodiscard]] bool has_ended(const RunId& run);
  /// Throws `NoSuchRun`.
  [[nodiscard]] RunInfo describe(const RunId& run);
  /// For `check_replay`.
  [[nodiscard]] RecordedRun record(const RunId& run);
  /// Anything else: `world.run([](Engine& engine) { return engine.purge(0s); })`. Made again if the
  /// process dies meanwhile, so it must be fit for that.
  template <typename Function>
  auto run(Function function) {
    for (;;) {
      auto running = spawn(executor(), function(engine()));
      const bool is_done =
          drive_until([&] { return running.ended(); }, [&] { running.request_stop(); });
      if (is_done) {
        return running.get();
      }
      forget_failure(running);
    }
  }

  // --- Time --------------------------------------------------------------------------------------

  /// Lets time pass. What falls due on the way happens at its own moment, in the order of these.
  void skip(Duration time);
  [[nodiscard]] StoreTime now() const;
  /// What `Schedules` go by: 1970 began with the world, until the test sets it.
  [[nodiscard]] VirtualWallClock& calendar();

  // --- Crashes -----------------------------------------------------------------------------------

  /// The process dies at the n-th commit from now, counted from 1, without a word; another one goes
  /// on at once with what was durable. Throws `InvalidArgument` if `commit` is 0, and
  /// `WrongContext` if such a crash is to come already.
  void crash_at_commit(std::uint64_t commit, CrashOutcome outcome = CrashOutcome::kLost);
  /// It dies now.
  void crash();
  /// How often it has died.
  [[nodiscard]] std::uint64_t crashes() const;

  /// What happened so far, a line each: starts, signals, steps, crashes, with their times.
  [[nodiscard]] std::string trace() const;

  // Until the next crash, they are the same.

  [[nodiscard]] Engine& engine();
  [[nodiscard]] Store& store();

 private:
  using Check = std::function<bool()>;
  using Act = std::function<void()>;

  explicit TestEngine(std::unique_ptr<holdfast::detail::TestWorld> world) noexcept;

  void set_fake(std::string_view name, holdfast::detail::StepFake fake);
  [[nodiscard]] std::string start_run(std::string_view type, boost::json::value input,
                                      const StartOptions& options);
  [[nodiscard]] boost::json::value result_of(const std::string& id);
  void send_signal(const std::string& id, std::string_view name, boost::json::value payload);
  [[nodiscard]] boost::json::value ask(const std::string& id, std::string_view name,
                                       boost::json::value payload, bool changes);
  [[nodiscard]] Executor& executor();
  /// False: the process has died, and another one goes on. `stop` ends what is waited for.
  [[nodiscard]] bool drive_until(const Check& done, const Act& stop);
  /// Does something that may be done twice; a run that has ended by the second time has had it.
  template <typename Function>
  void send(Function function);
  template <typename T>
  static void forget_failure(Spawned<T>& running) {
    try {
      static_cast<void>(running.get());
    } catch (const std::exception&) {
      return;  // It died with its process.
    }
  }

  std::unique_ptr<holdfast::detail::TestWorld> world_;
};

using Scenario = std::function<void(TestEngine& world)>;

struct CrashOptions {
  /// For test frameworks whose checks do not throw: whether one has failed, asked after each time.
  /// With GoogleTest: `::testing::Test::HasFailure`.
  bool (*has_failed)() = nullptr;
};

struct CrashReport {
  std::uint64_t commits = 0;  ///< Of the scenario, without a crash.
  std::uint64_t crashes = 0;  ///< That were tried: two for each commit.
};

/// Plays the scenario in a new world without a crash, then for each of its commits twice in which
/// the process dies there: the commit is lost; the commit is made, and nobody is told. Whatever
/// dies when, the scenario must come to the same: it checks that itself, and throws if not. All
/// that it changes outside, such as what fakes count, it makes anew each time.
///
/// Throws `CrashFound`, with what the scenario threw.
CrashReport crash_everywhere(const std::vector<AnyWorkflow>& workflows, const TestOptions& options,
                             const Scenario& scenario, const CrashOptions& crash_options = {});
CrashReport crash_everywhere(const std::vector<AnyWorkflow>& workflows, const Scenario& scenario,
                             const CrashOptions& crash_options = {});

}  // namespace holdfast::testing
