// SPDX-License-Identifier: Apache-2.0
#include <holdfast/testing.hpp>

#include <utility>

#include "run/engine_probe.hpp"
#include "test_world.hpp"

namespace holdfast::testing {

using holdfast::detail::EngineProbe;
using holdfast::detail::TestWorld;

TestEngine::TestEngine(std::unique_ptr<TestWorld> world) noexcept : world_(std::move(world)) {}
TestEngine::TestEngine(std::vector<AnyWorkflow> workflows, const TestOptions& options)
    : world_(std::make_unique<TestWorld>(std::move(workflows), options,
                                         holdfast::detail::StoreCopy{})) {}
TestEngine::TestEngine(TestEngine&& other) noexcept = default;
TestEngine::~TestEngine() = default;

TestEngine TestEngine::on_copy_of(Store& store, std::vector<AnyWorkflow> workflows,
                                  const TestOptions& options) {
  ThreadPool pool(1);
  holdfast::detail::StoreCopy copy = sync_wait(pool, holdfast::detail::copy_store(store));
  return TestEngine(std::make_unique<TestWorld>(std::move(workflows), options, std::move(copy)));
}

TestEngine TestEngine::copy() {
  return TestEngine(
      std::make_unique<TestWorld>(*world_, world_->ask(holdfast::detail::copy_store(store()))));
}

Engine& TestEngine::engine() { return world_->engine(); }
Store& TestEngine::store() { return world_->store(); }
Executor& TestEngine::executor() { return world_->executor(); }
VirtualWallClock& TestEngine::calendar() { return world_->calendar(); }
StoreTime TestEngine::now() const { return world_->now(); }
std::string TestEngine::trace() const { return world_->trace(); }

// --- Steps ---------------------------------------------------------------------------------------

void TestEngine::set_fake(std::string_view name, holdfast::detail::StepFake fake) {
  world_->set_fake(name, std::move(fake));
}
void TestEngine::forbid_real_steps() { world_->forbid_real_steps(); }
std::uint64_t TestEngine::calls(std::string_view step) const { return world_->calls(step); }
std::vector<std::string> TestEngine::unused_fakes() const { return world_->unused_fakes(); }

// --- Time and crashes ----------------------------------------------------------------------------

void TestEngine::skip(Duration time) { world_->skip(time); }
void TestEngine::crash_at_commit(std::uint64_t commit, CrashOutcome outcome) {
  world_->crash_at_commit(commit, outcome);
}
void TestEngine::crash() { world_->crash(); }
std::uint64_t TestEngine::crashes() const { return world_->crashes(); }

bool TestEngine::drive_until(const Check& done, const Act& stop) {
  return world_->drive_until(done, stop,
                             [] { return std::string("what was asked has no answer"); });
}

// --- Runs ----------------------------------------------------------------------------------------

std::string TestEngine::start_run(std::string_view type, boost::json::value input,
                                  const StartOptions& options) {
  // Made again after a crash, it finds what it has started.
  const std::string key = options.idempotency_key.empty() ? world_->next_request()
                                                          : std::string(options.idempotency_key);
  StartOptions once = options;
  once.idempotency_key = key;
  std::string id = run([&](Engine& engine) { return engine.start_run(type, input, once); });
  world_->note("run '" + id + "' (" + std::string(type) + ") was started");
  return id;
}

boost::json::value TestEngine::result_of(const std::string& id) {
  const auto why = [&] { return world_->ask(EngineProbe(engine()).why_it_waits(id)); };
  while (!world_->drive_until([&] { return world_->ask(EngineProbe(engine()).has_ended(id)); },
                              [] {}, why)) {
  }
  return run([&](Engine& engine) { return EngineProbe(engine).result(id); });
}

template <typename Function>
void TestEngine::send(Function function) {
  const std::uint64_t crashes_before = crashes();
  try {
    run(std::move(function));
  } catch (const NoSuchRun&) {
    if (crashes() == crashes_before) {
      throw;
    }
  }
}

void TestEngine::send_signal(const std::string& id, std::string_view name,
                             boost::json::value payload) {
  const std::string request = world_->next_request();
  world_->note("signal '" + std::string(name) + "' to run '" + id + "'");
  send([&](Engine& engine) { return engine.signal(id, name, payload, request); });
}

boost::json::value TestEngine::ask(const std::string& id, std::string_view name,
                                   boost::json::value payload, bool changes) {
  const std::string request = world_->next_request();
  return run([&](Engine& engine) {
    return changes ? engine.update<boost::json::value>(id, name, payload, request)
                   : engine.query<boost::json::value>(id, name, payload);
  });
}

void TestEngine::cancel(const RunId& run) {
  send([&](Engine& engine) { return engine.cancel(run.text()); });
}

void TestEngine::terminate(const RunId& run, std::string_view reason) {
  send([&](Engine& engine) { return engine.terminate(run.text(), reason); });
}

bool TestEngine::has_ended(const RunId& run) {
  return world_->ask(EngineProbe(engine()).has_ended(run.text()));
}

RunInfo TestEngine::describe(const RunId& run) {
  std::optional<RunInfo> info = world_->ask(engine().describe(run.text()));
  if (!info) {
    throw NoSuchRun("there is no run '" + run.text() + "' in this test");
  }
  return *std::move(info);
}

RecordedRun TestEngine::record(const RunId& run) {
  return world_->ask(engine().record(run.text()));
}

}  // namespace holdfast::testing
