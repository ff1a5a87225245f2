// SPDX-License-Identifier: Apache-2.0
#include "test_world.hpp"

#include <algorithm>
#include <chrono>
#include <variant>

#include "gate/session_rules.hpp"
#include "run/engine_probe.hpp"
#include "run/schedule_state.hpp"

namespace holdfast::detail {

namespace {

/// The longest that there is: fewer renewals when much time passes.
constexpr Duration kSessionTime = std::chrono::hours(24);
constexpr std::size_t kTraceLinesMax = 1'000;

std::string seconds_text(Duration time) {
  constexpr std::int64_t kMsPerSecond = 1'000;
  const std::int64_t ms = std::chrono::floor<std::chrono::milliseconds>(time).count();
  std::string text = std::to_string(ms / kMsPerSecond);
  if (ms % kMsPerSecond != 0) {
    text.append(".").append(std::to_string(kMsPerSecond + ms % kMsPerSecond).substr(1));
  }
  return text.append(" s");
}

testing::TestOptions checked(const testing::TestOptions& options) {
  if (options.seed == 0) {
    throw InvalidArgument(
        "TestOptions::seed is 0: give another number, so that a test is the same "
        "each time");
  }
  if (options.patience <= Duration::zero()) {
    throw InvalidArgument(std::string("TestOptions::patience is ")
                              .append(std::to_string(options.patience.count()))
                              .append(" ns: give more than zero"));
  }
  return options;
}

/// As if they were buried by others, at once.
Task<void> bury_sessions(Store& store) {
  const Page page = co_await store.scan(kSessionPrefix);
  Batch batch;
  for (const Entry& entry : page.entries) {
    batch.erase(entry.key);
  }
  if (batch.size() > 0) {
    static_cast<void>(co_await store.commit(std::move(batch)));
  }
}

}  // namespace

/// One that is driven by hand, in the order of arrival or in one of the seed's.
class TestWorld::HandDriven {
 public:
  HandDriven(Clock& clock, bool shuffle, std::uint64_t seed) {
    if (shuffle) {
      executor_.emplace<SeededExecutor>(clock, seed);
    } else {
      executor_.emplace<ManualExecutor>(clock);
    }
  }
  [[nodiscard]] Executor& get() {
    return std::visit(
        [](auto& executor) -> Executor& {
          if constexpr (std::derived_from<std::remove_cvref_t<decltype(executor)>, Executor>) {
            return executor;
          } else {
            HOLDFAST_CHECK(false, "there is always one");
          }
        },
        executor_);
  }
  bool run_one() {
    auto* const shuffled = std::get_if<SeededExecutor>(&executor_);
    return shuffled != nullptr ? shuffled->run_one()
                               : std::get<ManualExecutor>(executor_).run_one();
  }

 private:
  std::variant<std::monostate, ManualExecutor, SeededExecutor> executor_;
};

/// What dies in a crash. The store outlives the tasks that use it.
struct TestWorld::Process {
  Process(TestWorld& world, std::uint64_t seed)
      : store(open_memory_store(world.disk_)),
        session_executor(world.session_clock_),
        executor(world.clock_, world.options_.shuffle, seed),
        crashes_before(world.disk_->crash_count()) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    engine.reset();
    drain();
    session.reset();
    drain();
  }
  void begin(TestWorld& world, std::uint64_t seed) {
    sync_wait(executor.get(), bury_sessions(*store));
    const SessionOptions options{
        .ttl = kSessionTime, .name = "test", .executor = &session_executor, .seed = seed};
    session = sync_wait(session_executor, Session::open(*store, options));
    session_executor.drain();  // Its heartbeat waits for its time from here on.
    engine.emplace(*session, EngineOptions{.executor = &executor.get(),
                                           .queue = world.queue_,
                                           .watchdog_time = Duration::zero(),
                                           .warn = [](const std::string& /*text*/) {},
                                           .seed = seed,
                                           .wall_clock = &world.calendar_});
    EngineProbe probe(*engine);
    for (const testing::AnyWorkflow& workflow : world.workflows_) {
      probe.add(workflow.name(), workflow.code(), workflow.admission());
    }
    probe.set_call_step(
        [&world, life = world.life_](CalledStep called, StepCode& code, StepContext& context) {
          return world.call_step(life, called, code, context);
        });
    sync_wait(executor.get(), engine->recover_all());
  }
  void drain() {
    while (executor.run_one() || session_executor.run_one()) {
    }
  }

  std::unique_ptr<Store> store;
  ManualExecutor session_executor;
  HandDriven executor;
  std::unique_ptr<Session> session;
  std::optional<Engine> engine;
  const std::uint64_t crashes_before;
};

TestWorld::TestWorld(Workflows workflows, const testing::TestOptions& options, StoreCopy beginning)
    : workflows_(std::move(workflows)),
      options_(checked(options)),
      queue_(options.queue),
      disk_(std::make_shared<MemoryDisk>(clock_, std::move(beginning.entries))) {
  const Duration ahead = beginning.time - now();
  if (ahead > Duration::zero()) {
    clock_.advance(ahead);
    session_clock_.advance(ahead);
  }
  began_ = now();
  begin_process();
}

TestWorld::TestWorld(TestWorld& world, StoreCopy copy)
    : workflows_(world.workflows_),
      options_(world.options_),
      queue_(world.queue_),
      disk_(std::make_shared<MemoryDisk>(clock_, std::move(copy.entries))),
      life_(world.life_),
      requests_(world.requests_),
      real_steps_forbidden_(world.real_steps_forbidden_),
      began_(world.began_),
      trace_(world.trace_) {
  for (const auto& [name, fake] : world.fakes_) {
    set_fake(name, fake->call);
  }
  const Duration ahead = copy.time - now();
  clock_.advance(ahead);
  session_clock_.advance(ahead);
  calendar_.set(world.calendar_.now());
  begin_process();
}

TestWorld::~TestWorld() {
  ++life_;  // What is left does nothing any more.
  process_.reset();
}

Engine& TestWorld::engine() noexcept { return *process_->engine; }
Store& TestWorld::store() noexcept { return *process_->store; }
Executor& TestWorld::executor() noexcept { return process_->executor.get(); }

// --- Life and death ------------------------------------------------------------------------------

void TestWorld::begin_process() {
  for (;;) {
    // Two processes must not make the same ids.
    constexpr std::uint64_t kSeedStep = 1'000'003;
    const std::uint64_t seed = options_.seed + kSeedStep * ++life_;
    process_ = std::make_unique<Process>(*this, seed);
    try {
      process_->begin(*this, seed);
    } catch (const Error&) {
      if (!has_died()) {
        throw;
      }
    }
    if (!has_died()) {
      return;
    }
    end_process();
    crash_expected_ = false;
  }
}

void TestWorld::end_process() {
  note("the process has died; another one goes on");
  ++life_;
  process_.reset();
}

bool TestWorld::has_died() const { return disk_->crash_count() != process_->crashes_before; }

void TestWorld::revive() {
  end_process();
  crash_expected_ = false;
  begin_process();
}

void TestWorld::crash_at_commit(std::uint64_t commit, CrashOutcome outcome) {
  if (commit == 0) {
    throw InvalidArgument("crash_at_commit(0): commits are counted from 1 on, which is the next");
  }
  if (crash_expected_) {
    throw WrongContext(
        std::string("crash_at_commit(")
            .append(std::to_string(commit))
            .append("): a crash is to come already, of an earlier call or of crash_everywhere"));
  }
  crash_expected_ = true;
  disk_->set_faults({.seed = options_.seed, .crash_at_commit = commit, .crash_outcome = outcome});
}

void TestWorld::crash() {
  disk_->crash();
  end_process();
  begin_process();
}

// --- Time ----------------------------------------------------------------------------------------

bool TestWorld::run_one() { return process_->executor.run_one(); }

bool TestWorld::drain() {
  while (!has_died() && run_one()) {
  }
  return !has_died();
}

bool TestWorld::sweep() {
  auto sweeping = spawn(executor(), engine().sweep());
  while (!has_died() && !sweeping.ended() && run_one()) {
  }
  const bool lives = !has_died();
  if (!lives) {
    sweeping.request_stop();
    process_->drain();
  }
  HOLDFAST_CHECK(sweeping.ended(), "a sweep of a test engine waits");
  try {
    static_cast<void>(sweeping.get());
  } catch (const Error&) {
    if (lives) {
      throw;
    }
  }
  return lives;
}

bool TestWorld::settle() {
  EngineProbe probe(engine());
  for (bool again = true; again;) {
    if (!drain() || !sweep() || !drain()) {
      return false;
    }
    const std::optional<StoreTime> due = probe.next_due();
    again = due && *due <= now();
  }
  if (options_.forget_waiting) {
    probe.forget_waiting();
  }
  return drain();
}

std::optional<TimePoint> TestWorld::next_moment() {
  std::optional<TimePoint> next = clock_.next_due();
  if (const std::optional<StoreTime> due = EngineProbe(engine()).next_due()) {
    const TimePoint at(due->time_since_epoch());
    next = std::min(next.value_or(at), at);
  }
  return next;
}

bool TestWorld::move_to(TimePoint target) {
  while (session_clock_.next_due().value_or(TimePoint::max()) <= target) {
    clock_.advance(*session_clock_.next_due() - clock_.now());
    session_clock_.advance_to_next();
    process_->session_executor.drain();
    if (has_died()) {
      return false;
    }
  }
  clock_.advance(target - clock_.now());
  session_clock_.advance(target - session_clock_.now());
  return true;
}

void TestWorld::check_no_mistake(const Act& stop) {
  if (!mistake_.empty()) {
    stop();
    process_->drain();
    throw WrongContext(std::exchange(mistake_, {}));
  }
}

bool TestWorld::drive_until(const Check& done, const Act& stop, const Explain& explain) {
  const TimePoint latest = clock_.now() + options_.patience;
  hopeless_.clear();
  for (;;) {
    if (!settle()) {
      break;
    }
    check_no_mistake(stop);
    if (done()) {
      return true;
    }
    const std::optional<TimePoint> next = next_moment();
    std::string why = hopeless_;
    if (why.empty() && !next) {
      why = "nothing else is under way, and no time will change that";
    } else if (why.empty() && *next > latest) {
      why = "the patience of this test, " + seconds_text(options_.patience) + ", is over";
    }
    if (!why.empty()) {
      std::string text = explain();
      stop();
      process_->drain();
      throw testing::StuckRun(text.append(": ").append(why));
    }
    if (!move_to(*next)) {
      break;
    }
  }
  stop();
  process_->drain();
  revive();
  return false;
}

void TestWorld::skip(Duration time) {
  if (time < Duration::zero()) {
    throw InvalidArgument(std::string("TestEngine::skip: ")
                              .append(std::to_string(time.count()))
                              .append(" ns is below zero; time only goes forward"));
  }
  const TimePoint target = clock_.now() + time;
  for (;;) {
    if (!settle()) {
      revive();
      continue;
    }
    check_no_mistake([] {});
    if (clock_.now() == target) {
      return;
    }
    if (!move_to(std::min(next_moment().value_or(target), target))) {
      revive();
    }
  }
}

// --- Steps ---------------------------------------------------------------------------------------

Task<boost::json::value> TestWorld::call_step(std::uint64_t life, CalledStep called, StepCode& code,
                                              StepContext& context) {
  if (life != life_ || has_died()) {
    throw Cancelled("the process of step '" + called.name + "' is dead");
  }
  const std::uint64_t number = ++calls_[called.name];
  const std::string step =
      "step '" + called.name + "' of run '" + called.run_id + "' (" + called.workflow + ")";
  note(std::string(step).append(", attempt ").append(std::to_string(context.attempt())));
  if (context.attempt() > options_.attempts_max) {
    hopeless_ = std::string(step).append(" has failed ");
    hopeless_.append(std::to_string(options_.attempts_max)).append(" times");
  }
  boost::json::value value;
  const auto found = fakes_.find(called.name);
  if (found != fakes_.end()) {
    const std::shared_ptr<Fake> fake = found->second;
    fake->used = true;
    testing::StepCall call({called.name, called.run_id, called.workflow, called.run_input, number},
                           context);
    auto faked = fake->call(call);
    value = co_await faked;
  } else if (real_steps_forbidden_ && called.workflow != kScheduleType) {
    mistake_ = step + " has no fake, and real steps are forbidden: TestEngine::fake_step";
    throw PermanentFailure(mistake_);
  } else {
    auto real = code.run(context);
    value = co_await real;
  }
  co_return value;
}

void TestWorld::set_fake(std::string_view name, StepFake fake) {
  if (name.empty()) {
    throw InvalidArgument("fake_step: the name of a step is empty");
  }
  fakes_.insert_or_assign(std::string(name), std::make_shared<Fake>(Fake{std::move(fake)}));
}

std::uint64_t TestWorld::calls(std::string_view step) const {
  const auto found = calls_.find(step);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<std::string> TestWorld::unused_fakes() const {
  std::vector<std::string> names;
  for (const auto& [name, fake] : fakes_) {
    if (!fake->used) {
      names.push_back(name);
    }
  }
  return names;
}

// --- What happened -------------------------------------------------------------------------------

std::string TestWorld::next_request() {
  return std::string("test-")
      .append(std::to_string(options_.seed))
      .append("-")
      .append(std::to_string(++requests_));
}

void TestWorld::note(const std::string& text) {
  if (trace_.size() == kTraceLinesMax) {
    trace_.pop_front();
  }
  trace_.push_back(seconds_text(now() - began_) + ": " + text);
}

std::string TestWorld::trace() const {
  std::string text;
  for (const std::string& line : trace_) {
    text.append(line).append("\n");
  }
  return text;
}

}  // namespace holdfast::detail
