// SPDX-License-Identifier: Apache-2.0
#include "run_simulation.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "inspection.hpp"

namespace holdfast::testing {

using namespace std::chrono_literals;

namespace {

const std::string kQueue = "default";
/// In which everything has to end when nothing goes wrong any more.
constexpr Duration kPatience = 48h;
constexpr Duration kLook = 20s;
/// After which what went wrong before makes no difference.
constexpr Duration kSettled = 3min;

const std::string& subject_of(const Errand& errand) {
  if (errand.order != nullptr) {
    return errand.order->id;
  }
  return errand.timetable != nullptr ? errand.timetable->name : errand.gathering->id;
}

}  // namespace

RunSimulation::RunSimulation(std::uint64_t seed, Tally& tally) : tally_(tally), dice_(seed) {
  outside = &world_;
}

RunSimulation::~RunSimulation() {
  for (const auto& process : processes_) {
    take_from(*process);
  }
  processes_.clear();
  outside = nullptr;
}

Duration RunSimulation::between(Duration least, Duration most) {
  const auto span = static_cast<std::uint64_t>((most - least).count()) + 1;
  return least + Duration(static_cast<Duration::rep>(dice_.below(span)));
}

// --- What clients want ---------------------------------------------------------------------------

void RunSimulation::make_orders() {
  const std::uint64_t count = 1 + dice_.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    Order& order = orders_.emplace_back();
    order.id = "order-" + std::to_string(i);
    order.program = make_program(dice_, next_label_);
    order.expected = evaluate(order.program);
    order.limit = static_cast<PlayLimit>(dice_.below(kPlayLimits));
    order.queue = dice_.one_in(6) ? kOtherQueue : kQueue;
    order.delay = dice_.one_in(5) ? between(1s, 2min) : 0s;
    if (dice_.one_in(3)) {
      order.fate = static_cast<Order::Fate>(1 + dice_.below(4));
    }
    if (order.fate == Order::Fate::kReset && takes_locks(order.program)) {
      order.fate = Order::Fate::kTimeout;
    }
    if (order.fate == Order::Fate::kTimeout || order.fate == Order::Fate::kReset) {
      order.timeout = between(1s, 20min);
    }
    make_errands(order);
  }
  tally_.runs += count;
}

void RunSimulation::make_errands(const Order& of) {
  const TimePoint now = clock_.now();
  const Errand* started = nullptr;
  const auto add = [&](Errand::Kind kind, TimePoint at, const Wanted& wanted = {}) {
    Errand& errand = errands_.emplace_back();
    errand.kind = kind;
    errand.order = &of;
    errand.at = at;
    errand.wanted = wanted;
    if (started == nullptr) {
      started = &errand;
    } else {
      errand.after.push_back(started);
    }
  };
  const TimePoint start = now + between(0s, dice_.one_in(2) ? Duration(10s) : Duration(2min));
  add(Errand::Kind::kStart, start);
  for (const Wanted& wanted : of.expected.wanted) {
    // One that is to be ended need not get all that it waits for.
    if (of.fate == Order::Fate::kResult || dice_.one_in(2)) {
      add(wanted.is_update ? Errand::Kind::kUpdate : Errand::Kind::kSignal,
          start + between(0s, dice_.one_in(2) ? Duration(5s) : Duration(5min)), wanted);
    }
  }
  if (of.fate == Order::Fate::kCancel) {
    add(Errand::Kind::kCancel, start + between(0s, 3min));
  }
  if (of.fate == Order::Fate::kTerminate) {
    add(Errand::Kind::kTerminate, start + between(0s, 3min));
  }
  if (of.fate == Order::Fate::kReset) {
    const std::uint64_t count = 1 + dice_.below(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto rows = static_cast<std::int64_t>(1 + dice_.below(8));
      add(Errand::Kind::kReset, start + between(0s, 5min), {.value = rows});
    }
  }
  add(Errand::Kind::kResult, start + between(0s, 5min));
  for (const auto kind :
       {Errand::Kind::kBadUpdate, Errand::Kind::kQuery, Errand::Kind::kRetryNow}) {
    if (dice_.one_in(3)) {
      add(kind, start + between(0s, 2min));
    }
  }
}

void RunSimulation::make_timetables() {
  const std::uint64_t count = dice_.one_in(3) ? 1 + dice_.below(2) : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    make_errands(schedules_.add(make_timetable(dice_, "schedule-" + std::to_string(i))));
  }
}

void RunSimulation::make_errands(const Timetable& of) {
  std::vector<const Errand*> made;
  const auto add = [&](Errand::Kind kind, TimePoint at, std::int64_t value = 0) {
    Errand& errand = errands_.emplace_back();
    errand.kind = kind;
    errand.timetable = &of;
    errand.at = at;
    errand.wanted.value = value;
    if (!made.empty()) {
      errand.after = kind == Errand::Kind::kRemoveSchedule ? made : std::vector{made.front()};
    }
    made.push_back(&errand);
    return &errand;
  };
  const auto length_ms = [&] { return static_cast<std::int64_t>(1 + dice_.below(20'000)); };
  const TimePoint set_at = clock_.now() + between(0s, 30s);
  add(Errand::Kind::kSetSchedule, set_at, length_ms());
  if (dice_.one_in(3)) {
    add(Errand::Kind::kSetSchedule, set_at + between(1s, 3min), length_ms());
  }
  for (std::uint64_t i = 0; i < of.asked_for; ++i) {
    add(Errand::Kind::kRunNow, set_at + between(1s, 3min), static_cast<std::int64_t>(i));
  }
  if (of.has_pause) {
    const Errand* const pause = add(Errand::Kind::kPauseSchedule, set_at + between(1s, 3min));
    add(Errand::Kind::kResumeSchedule, pause->at + between(0s, 1min))->after.push_back(pause);
  }
  add(Errand::Kind::kRemoveSchedule, set_at + between(30s, 12min));
}

void RunSimulation::make_gatherings() {
  if (dice_.one_in(3)) {
    Gathering& gathering = gatherings_.emplace_back();
    gathering.id = "gathering";
    gathering.queue = dice_.one_in(4) ? kOtherQueue : kQueue;
    gathering.pause = between(10ms, dice_.one_in(2) ? Duration(1s) : Duration(30s));
    make_errands(gathering);
  }
}

/// Every other signal comes at about the time at which the run ends after the one before it.
void RunSimulation::make_errands(Gathering& to) {
  const std::uint64_t count = 2 + dice_.below(8);
  TimePoint at = clock_.now() + between(0s, 30s);
  for (std::uint64_t i = 0; i < count; ++i) {
    Errand& errand = errands_.emplace_back();
    errand.kind = Errand::Kind::kStartOrSignal;
    errand.gathering = &to;
    errand.wanted.value = next_label_++;
    errand.at = at;
    to.unknown.emplace(errand.wanted.value, 0);
    at += dice_.one_in(2) ? to.pause + between(0ms, 20ms) : between(0ms, 2 * to.pause);
  }
  tally_.gathered += count;
}

bool RunSimulation::may_begin(const Errand& errand) const {
  return !errand.is_done && !errand.attempt && errand.at <= clock_.now() &&
         std::ranges::all_of(errand.after, [&](const Errand* one) {
           return one->is_done && one->at <= clock_.now();  // Messages of one moment have no order.
         });
}

void RunSimulation::send_errands() {
  for (Errand& errand : errands_) {
    if (errand.attempt && errand.answer->verdict != Errand::Verdict::kUnderWay) {
      finish_errand(errand);
    }
    if (may_begin(errand)) {
      begin_errand(errand);
    }
  }
}

void RunSimulation::begin_errand(Errand& errand) {
  MortalProcess& process = *processes_[dice_.below(processes_.size())];
  if (!process.is_up()) {
    errand.at = clock_.now() + between(1ms, 1s);
    return;
  }
  const bool has_been_calm = is_calm_ && clock_.now() - calm_since_ > kSettled;
  if (errand.kind == Errand::Kind::kRemoveSchedule && has_been_calm) {
    schedules_.check_is_driven(*errand.timetable);
  }
  errand.where = &process;
  errand.answer = std::make_shared<Errand::Answer>();
  Engine& engine = *process.engine;
  errand.attempt.emplace(spawn(process.executor, attempt(engine, errand)));
}

Task<void> RunSimulation::attempt(Engine& engine, const Errand& errand) {
  if (errand.timetable != nullptr) {
    return carry_out(engine, errand.kind, errand.wanted, *errand.timetable, errand.answer);
  }
  if (errand.gathering != nullptr) {
    return carry_out(engine, errand.wanted, *errand.gathering, errand.answer);
  }
  return carry_out(engine, errand.kind, errand.wanted, *errand.order, errand.answer);
}

void RunSimulation::finish_errand(Errand& errand) {
  using Verdict = Errand::Verdict;
  const Verdict verdict = errand.answer->verdict;
  if (!errand.answer->fault.empty()) {
    faults_.push_back(errand.answer->fault);
  }
  errand.attempt.reset();
  errand.where = nullptr;
  if (verdict == Verdict::kUnknown) {
    ++tally_.unknowns;
    if (errand.gathering != nullptr) {
      ++errand.gathering->unknown[errand.wanted.value];
    }
  }
  const bool is_start = errand.kind == Errand::Kind::kStart;
  errand.is_done = verdict == Verdict::kAcknowledged || errand.is_tried_once() ||
                   (verdict == Verdict::kGone && !is_start);
  errand.at = clock_.now() + between(10ms, 5s);
}

/// The requests that a process has in hand end with it: their clients try elsewhere.
void RunSimulation::take_from(MortalProcess& process) {
  process.store->die();
  for (Errand& errand : errands_) {
    if (errand.where == &process) {
      errand.attempt->request_stop();
    }
  }
  process.drain();
  for (Errand& errand : errands_) {
    if (errand.where == &process) {
      const bool was_told = errand.answer->verdict == Errand::Verdict::kAcknowledged;
      if (!was_told) {
        errand.answer->verdict = Errand::Verdict::kUnknown;
      }
      finish_errand(errand);
      errand.is_done = was_told || errand.is_tried_once();
    }
  }
}

bool RunSimulation::all_is_done() {
  return std::all_of(errands_.begin(), errands_.end(),
                     [](const Errand& errand) { return errand.is_done; });
}

// --- Processes, and what becomes of them ---------------------------------------------------------

void RunSimulation::set_faults() {
  busy_chance_ = dice_.one_in(3) ? 0.01 : 0;
  MemoryFaults faults;
  faults.seed = dice_.next();
  faults.busy_chance = dice_.one_in(3) ? 0.05 : 0;
  faults.conflict_chance = dice_.one_in(3) ? 0.03 : 0;
  faults.unknown_chance = dice_.one_in(3) ? 0.03 : 0;
  if (dice_.one_in(2)) {
    faults.sync_delay_max = dice_.one_in(2) ? Duration(2s) : Duration(5ms);
  }
  disk_->set_faults(faults);
}

void RunSimulation::add_process(const std::string& queue, bool drives) {
  auto store = std::make_unique<MortalStore>(disk_, tally_, owners_, dice_.next());
  store->busy_chance = busy_chance_;
  store->before_commit = [this](const Batch& batch) { gates_.before_commit(batch); };
  store->after_commit = [this](const Batch& batch) { schedules_.after_commit(batch); };
  processes_.push_back(std::make_unique<MortalProcess>(
      clock_, std::move(store), MortalProcess::Terms{dice_.next() | 1, queue, drives, &calendar_}));
}

void RunSimulation::end_process(MortalProcess& process) {
  take_from(process);
  process.kill();
  std::erase_if(processes_, [&](const auto& one) { return one.get() == &process; });
}

/// Ends those that are of no use, and sees that there are enough.
void RunSimulation::keep_processes() {
  if (std::exchange(power_is_cut_, false)) {
    while (!processes_.empty()) {
      end_process(*processes_.back());
    }
  }
  for (std::size_t i = 0; i < processes_.size();) {
    MortalProcess& process = *processes_[i];
    if (process.is_over(clock_.now()) && !process.is_stalled(clock_.now())) {
      end_process(process);
    } else {
      ++i;
    }
  }
  const auto count = [&](const std::string& queue, bool drives) {
    return static_cast<std::size_t>(
        std::count_if(processes_.begin(), processes_.end(), [&](const auto& process) {
          return process->terms().queue == queue && process->terms().drives == drives;
        }));
  };
  if (processes_.empty() || next_process_ <= clock_.now()) {
    next_process_ = clock_.now() + between(1ms, 10s);
    if (count(kQueue, true) < drivers_wanted_) {
      add_process(kQueue, true);
    } else if (count(kOtherQueue, true) == 0) {
      add_process(kOtherQueue, true);
    } else if (count(kQueue, false) == 0) {
      add_process(kQueue, false);
    }
  }
}

void RunSimulation::cut_power() {
  if (is_calm_) {
    return;  // It was to be at a commit that took until now.
  }
  ++tally_.power_cuts;
  gates_.look_at_last();
  disk_->crash();
  power_is_cut_ = true;
}

/// Something bad happens to somebody.
void RunSimulation::strike() {
  next_strike_ = clock_.now() + between(1ms, dice_.one_in(2) ? Duration(5s) : Duration(90s));
  if (processes_.empty()) {
    return;
  }
  MortalProcess& process = *processes_[dice_.below(processes_.size())];
  const std::uint64_t commits = 1 + dice_.below(dice_.one_in(2) ? 4 : 40);
  switch (dice_.below(8)) {
    case 0:
      process.store->doom_at(commits, [this] { cut_power(); });
      break;
    case 1:
    case 2:
      process.stall(clock_.now() + between(100ms, 100s), between(0s, 20s));
      ++tally_.stalls;
      break;
    case 3:
      if (process.is_up()) {
        process.stop();
        ++tally_.stops;
      }
      break;
    case 4:
      ++tally_.kills;
      end_process(process);
      break;
    default:
      process.store->doom_at(commits, [this, store = process.store.get()] {
        ++tally_.kills;
        store->die();
      });
  }
}

// --- Time ----------------------------------------------------------------------------------------

bool RunSimulation::run_one() {
  const std::size_t count = processes_.size();
  const std::size_t first = count == 0 ? 0 : dice_.below(count);
  for (std::size_t i = 0; i < count; ++i) {
    MortalProcess& process = *processes_[(first + i) % count];
    if (!process.is_stalled(clock_.now()) && process.run_one()) {
      if (power_is_cut_ || process.store->is_dead()) {
        keep_processes();
      }
      return true;
    }
  }
  return false;
}

void RunSimulation::go_on_until(TimePoint end) {
  while (clock_.now() < end) {
    keep_processes();
    send_errands();
    if (!is_calm_ && next_strike_ <= clock_.now()) {
      strike();
    }
    const std::uint64_t pieces = 1 + dice_.below(30);
    bool ran = false;
    for (std::uint64_t i = 0; i < pieces && run_one(); ++i) {
      ran = true;
    }
    if (ran) {
      continue;
    }
    TimePoint next = std::min(end, next_process_ > clock_.now() ? next_process_ : end);
    if (!is_calm_ && next_strike_ > clock_.now()) {
      next = std::min(next, next_strike_);
    }
    for (const auto& process : processes_) {
      for (const TimePoint wakes : {process->stalled_until, process->unaware_until}) {
        next = wakes > clock_.now() ? std::min(next, wakes) : next;
      }
    }
    for (const Errand& errand : errands_) {
      if (!errand.is_done && !errand.attempt && errand.at > clock_.now()) {
        next = std::min(next, errand.at);
      }
    }
    const std::optional<TimePoint> due = clock_.next_due();
    if (due && *due <= next) {
      clock_.advance_to_next();
    } else {
      clock_.advance(next - clock_.now());
    }
  }
}

/// From now on nothing goes wrong, and what was wrong is seen to.
void RunSimulation::calm_down() {
  is_calm_ = true;
  calm_since_ = clock_.now();
  disk_->set_faults({});
  busy_chance_ = 0;
  const bool begin_anew = dice_.one_in(2);
  for (const auto& process : processes_) {
    process->store->busy_chance = 0;
    process->store->doom_at(0, nullptr);
    process->stalled_until = {};
    process->unaware_until = {};
  }
  while (begin_anew && !processes_.empty()) {
    end_process(*processes_.back());
  }
}

bool RunSimulation::finish() {
  SeededExecutor executor(clock_, 1);
  const std::unique_ptr<Store> store = open_memory_store(disk_);
  Inspection inspection(executor, *store, orders_, gatherings_, world_);
  const TimePoint end = clock_.now() + kPatience;
  bool done = false;
  while (!done && clock_.now() < end) {
    go_on_until(clock_.now() + kLook);
    done = all_is_done() && inspection.open_runs().empty();
  }
  if (!done) {
    for (const std::string& run : inspection.open_runs()) {
      faults_.push_back("it does not end: " + run);
    }
    for (const Errand& errand : errands_) {
      if (!errand.is_done) {
        faults_.push_back("a request is never answered: kind " +
                          std::to_string(static_cast<int>(errand.kind)) + " of " +
                          subject_of(errand));
      }
    }
    faults_.push_back("in the store:\n" + inspection.dump());
  }
  return done;
}

std::vector<std::string> RunSimulation::run() {
  drivers_wanted_ = 1 + dice_.below(3);
  make_orders();
  make_timetables();
  make_gatherings();
  set_faults();
  next_strike_ = clock_.now() + between(1s, 60s);
  go_on_until(clock_.now() + between(30s, 6min));
  calm_down();
  const bool done = finish();
  const std::vector<std::string> found = done ? look_at_the_end() : std::vector<std::string>{};
  gates_.look_at_last();
  for (const auto* more : {&found, &schedules_.faults(), &gates_.faults()}) {
    faults_.insert(faults_.end(), more->begin(), more->end());
  }
  tally_.time += clock_.now() - TimePoint{};
  tally_.limited += world_.bodies.seen;
  tally_.scheduled += schedules_.begun();
  for (const auto& [id, resets] : world_.resets) {
    tally_.resets += static_cast<std::uint64_t>(resets);
  }
  digest_ = disk_->commit_count() * 1'000'003 +
            static_cast<std::uint64_t>(clock_.now().time_since_epoch().count());
  return faults_;
}

std::vector<std::string> RunSimulation::look_at_the_end() {
  SeededExecutor executor(clock_, 1);
  const std::unique_ptr<Store> store = open_memory_store(disk_);
  Inspection inspection(executor, *store, orders_, gatherings_, world_);
  // By now every sweep has been.
  go_on_until(clock_.now() + 2min);
  schedules_.check_at_the_end(world_.beats);
  std::vector<std::string> found = inspection.find_faults();
  // Then those are gone, too, who have asked something and not waited for the answer.
  while (!processes_.empty()) {
    end_process(*processes_.back());
  }
  go_on_until(clock_.now() + 1min);
  const auto up = std::find_if(processes_.begin(), processes_.end(),
                               [](const auto& process) { return process->is_up(); });
  if (up == processes_.end()) {
    found.emplace_back("nobody is there at the end");
    return found;
  }
  auto purge = spawn((*up)->executor, (*up)->engine->purge(0s));
  (*up)->drain();
  static_cast<void>(purge.get());
  const std::vector<std::string> left = inspection.find_leftovers();
  found.insert(found.end(), left.begin(), left.end());
  return found;
}

}  // namespace holdfast::testing
