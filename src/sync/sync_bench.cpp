// SPDX-License-Identifier: Apache-2.0
#include "sync_bench.hpp"

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <semaphore>
#include <shared_mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>

#include "benchmarks/counted_allocations.hpp"
#include "benchmarks/harness.hpp"

namespace holdfast::bench {

namespace {

using namespace std::chrono_literals;

// ---- Nobody else wants it ----

constexpr std::uint64_t kUncontended = 2'000'000;

Task<void> lock_often(Mutex& mutex, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kUncontended; ++i) {
    const Hold hold = co_await mutex.lock();
    keep(++count);
  }
}

Task<void> acquire_often(Semaphore& semaphore, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kUncontended; ++i) {
    const Hold hold = co_await semaphore.acquire();
    keep(++count);
  }
}

Task<void> read_often(SharedMutex& mutex, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kUncontended; ++i) {
    const Hold hold = co_await mutex.lock_shared();
    keep(++count);
  }
}

double per_uncontended(Task<void> task, const std::uint64_t& count) {
  VirtualClock clock;
  ManualExecutor executor(clock);
  const Stopwatch stopwatch;
  sync_wait(executor, std::move(task));
  const double elapsed_ns = stopwatch.elapsed_ns();
  require(count == kUncontended, "not every lock was taken");
  return elapsed_ns / kUncontended;
}

double uncontended_semaphore_ns() {
  Semaphore semaphore(1);
  std::uint64_t count = 0;
  return per_uncontended(acquire_often(semaphore, count), count);
}

double uncontended_shared_ns() {
  SharedMutex mutex;
  std::uint64_t count = 0;
  return per_uncontended(read_often(mutex, count), count);
}

template <typename Step>
double per_step(const Step& step) {
  std::uint64_t count = 0;
  const Stopwatch stopwatch;
  for (std::uint64_t i = 0; i < kUncontended; ++i) {
    step(count);
  }
  return stopwatch.elapsed_ns() / kUncontended;
}

double std_mutex_ns() {
  std::mutex mutex;
  keep(mutex);
  return per_step([&mutex](std::uint64_t& count) {
    const std::lock_guard lock(mutex);
    keep(++count);
  });
}

double std_semaphore_ns() {
  std::counting_semaphore<> semaphore(1);
  keep(semaphore);
  return per_step([&semaphore](std::uint64_t& count) {
    semaphore.acquire();
    keep(++count);
    semaphore.release();
  });
}

double std_shared_mutex_ns() {
  std::shared_mutex mutex;
  keep(mutex);
  return per_step([&mutex](std::uint64_t& count) {
    const std::shared_lock lock(mutex);
    keep(++count);
  });
}

const Registration kUncontendedMutex({
    .suite = "sync",
    .name = "uncontended",
    .ours = uncontended_mutex_ns,
    .peer = std_mutex_ns,
    .peer_name = "std::mutex",
    .limit = {.ratio_max = 1.5},
    .rounds = 15,
});

const Registration kUncontendedSemaphore({
    .suite = "sync",
    .name = "uncontended_semaphore",
    .ours = uncontended_semaphore_ns,
    .peer = std_semaphore_ns,
    .peer_name = "std::counting_semaphore",
});

const Registration kUncontendedShared({
    .suite = "sync",
    .name = "uncontended_shared",
    .ours = uncontended_shared_ns,
    .peer = std_shared_mutex_ns,
    .peer_name = "std::shared_mutex",
});

// ---- From one to the next ----

constexpr std::uint64_t kTakers = 100;
constexpr std::uint64_t kTakes = 5'000;
constexpr std::uint64_t kHandoffs = kTakers * kTakes;

Task<void> take_turns(Mutex& mutex, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    const Hold hold = co_await mutex.lock();
    keep(++count);
  }
}

Task<void> take_turns_in_time(Mutex& mutex, std::uint64_t& count) {
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    const Hold hold = co_await mutex.lock({.timeout = 1h});
    keep(++count);
  }
}

Task<void> take_turns_or_stop(Mutex& mutex, std::uint64_t& count, std::stop_token stop) {
  for (std::uint64_t i = 0; i < kTakes; ++i) {
    const Hold hold = co_await mutex.lock({}, stop);
    keep(++count);
  }
}

/// Tasks that pass one mutex around. They start while it is held, so that all of them are in line
/// at the first release; from then on whoever releases queues behind the others, and each
/// acquisition is a hand-off.
class Relay {
 public:
  explicit Relay(Executor& executor) : executor_(executor), first_(*mutex_.try_lock()) {}

  template <typename MakeTask, typename... Arguments>
  void line_up(const MakeTask& make_task, const Arguments&... arguments) {
    for (std::uint64_t i = 0; i < kTakers; ++i) {
      tasks_.push_back(spawn(executor_, make_task(mutex_, count_, arguments...)));
    }
  }

  [[nodiscard]] bool all_in_line() const { return mutex_.queue_length() == kTakers; }
  void start() { first_.release(); }

  void check_all_served() {
    require(count_ == kHandoffs, "not every hand-off happened");
    for (auto& task : tasks_) {
      task.get();
    }
  }
  void wait_for_all() {
    for (auto& task : tasks_) {
      task.get();
    }
    tasks_.clear();
  }

 private:
  Executor& executor_;
  Mutex mutex_;
  Hold first_;
  std::uint64_t count_ = 0;
  std::vector<Spawned<void>> tasks_;
};

struct RelayFigures {
  double ns_per_handoff;
  double allocations_per_handoff;
};

template <typename MakeTask, typename... Arguments>
RelayFigures relay_by_hand(Clock& clock, const MakeTask& make_task, const Arguments&... arguments) {
  ManualExecutor executor(clock);
  Relay relay(executor);
  relay.line_up(make_task, arguments...);
  executor.drain();
  require(relay.all_in_line(), "a task did not wait");
  const CountedAllocations allocations;
  const Stopwatch stopwatch;
  relay.start();
  executor.drain();
  const double elapsed_ns = stopwatch.elapsed_ns();
  const std::size_t allocation_count = allocations.so_far();
  relay.check_all_served();
  return {elapsed_ns / kHandoffs, static_cast<double>(allocation_count) / kHandoffs};
}

RelayFigures plain_relay() {
  VirtualClock clock;
  return relay_by_hand(clock, take_turns);
}

RelayFigures timeout_relay() {
  SystemClock clock;
  return relay_by_hand(clock, take_turns_in_time);
}

RelayFigures stop_token_relay() {
  const std::stop_source stop;
  VirtualClock clock;
  return relay_by_hand(clock, take_turns_or_stop, stop.get_token());
}

double timeout_wait_ns() { return timeout_relay().ns_per_handoff; }
double stop_token_wait_ns() { return stop_token_relay().ns_per_handoff; }

double allocations_per_wait() {
  return plain_relay().allocations_per_handoff + timeout_relay().allocations_per_handoff +
         stop_token_relay().allocations_per_handoff;
}

double handoff_pool_ns() {
  ThreadPool pool(2);
  Relay relay(pool);
  relay.line_up(take_turns);
  while (!relay.all_in_line()) {
    std::this_thread::yield();
  }
  const Stopwatch stopwatch;
  relay.start();
  relay.wait_for_all();
  const double elapsed_ns = stopwatch.elapsed_ns();
  relay.check_all_served();
  return elapsed_ns / kHandoffs;
}

/// Two threads that wake each other in turn: each wake-up is one hand-off.
double std_semaphore_pingpong_ns() {
  constexpr int kRounds = 20'000;
  std::counting_semaphore<> ping(0);
  std::counting_semaphore<> pong(0);
  std::jthread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.acquire();
      pong.release();
    }
  });
  const Stopwatch stopwatch;
  for (int i = 0; i < kRounds; ++i) {
    ping.release();
    pong.acquire();
  }
  return stopwatch.elapsed_ns() / (2 * kRounds);
}

const Registration kHandoff({
    .suite = "sync",
    .name = "handoff",
    .ours = handoff_mutex_ns,
    .peer = std_semaphore_pingpong_ns,
    .peer_name = "std::counting_semaphore, two threads",
    .limit = {.ratio_max = 0.05, .ours_max = 50},
    .rounds = 15,
});

const Registration kHandoffPool({
    .suite = "sync",
    .name = "handoff_pool",
    .ours = handoff_pool_ns,
    .peer = std_semaphore_pingpong_ns,
    .peer_name = "std::counting_semaphore, two threads",
});

const Registration kTimeoutWait({
    .suite = "sync",
    .name = "timeout_wait",
    .ours = timeout_wait_ns,
    .peer = handoff_mutex_ns,
    .peer_name = "ours without a time-out",
});

const Registration kStopTokenWait({
    .suite = "sync",
    .name = "stop_token_wait",
    .ours = stop_token_wait_ns,
    .peer = handoff_mutex_ns,
    .peer_name = "ours without a stop token",
});

const Registration kAllocationsPerWait({
    .suite = "sync",
    .name = "allocations_per_wait",
    .ours = allocations_per_wait,
    .peer = [] { return 0.0; },
    .peer_name = "none",
    .unit = "allocations",
    .limit = {.ours_max = 0},
    .rounds = 1,
});

// ---- Long queues ----

constexpr std::size_t kLong = 1'000'000;
constexpr std::size_t kShort = 1'000;

/// Where a task goes after its turn, so that neither its end nor its failure is measured.
class Siding {
 public:
  explicit Siding(std::size_t room) : parked_(room) { parked_.clear(); }  // Touches the memory.

  struct Park {
    Siding& siding;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <detail::TaskPromise Promise>
    void await_suspend(std::coroutine_handle<Promise> task) const noexcept {
      siding.parked_.push_back({&task.promise().task_context(), task});
    }
    void await_resume() const noexcept {}
  };
  Park park() { return {*this}; }

  [[nodiscard]] std::size_t size() const noexcept { return parked_.size(); }
  void let_all_go() {
    for (const Parked& one : parked_) {
      one.context->schedule(one.task);
    }
    parked_.clear();
  }

 private:
  struct Parked {
    detail::TaskContext* context;
    std::coroutine_handle<> task;
  };
  std::vector<Parked> parked_;
};

Task<void> take_once(Mutex& mutex, Siding& siding) {
  {
    const Hold hold = co_await mutex.lock();
  }
  co_await siding.park();
}

/// So many tasks in line for one mutex, each to take it once.
class Line {
 public:
  explicit Line(std::size_t length)
      : length_(length), executor_(clock_), siding_(length), first_(*mutex_.try_lock()) {
    tasks_.reserve(length);
    for (std::size_t i = 0; i < length; ++i) {
      tasks_.push_back(spawn(executor_, take_once(mutex_, siding_)));
    }
    executor_.drain();
    require(mutex_.queue_length() == length, "a task did not wait");
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (first_) {
      first_.release();
    }
    executor_.drain();
    siding_.let_all_go();
    executor_.drain();
  }

  /// From the first release until the last one was served.
  double serve_all_ns() {
    const Stopwatch stopwatch;
    first_.release();
    executor_.drain();
    const double elapsed_ns = stopwatch.elapsed_ns();
    require(siding_.size() == length_, "not everyone was served");
    return elapsed_ns;
  }

  /// Only what the one who cancels does: the cancelled tasks have not run yet.
  double cancel_middle_ns(std::size_t count) {
    const std::size_t begin = (length_ - count) / 2;
    const Stopwatch stopwatch;
    for (std::size_t i = begin; i < begin + count; ++i) {
      tasks_[i].request_stop();
    }
    const double elapsed_ns = stopwatch.elapsed_ns();
    require(mutex_.queue_length() == length_ - count, "a cancelled task still waits");
    return elapsed_ns;
  }

 private:
  std::size_t length_;
  VirtualClock clock_;
  ManualExecutor executor_;
  Mutex mutex_;
  Siding siding_;
  Hold first_;
  std::vector<Spawned<void>> tasks_;
};

double queue_ns(std::size_t length) {
  double total_ns = 0;
  for (std::size_t served = 0; served < kLong; served += length) {
    Line line(length);
    total_ns += line.serve_all_ns();
  }
  return total_ns / kLong;
}

double cancel_ns(std::size_t length, std::size_t cancels, std::size_t lines) {
  double total_ns = 0;
  for (std::size_t i = 0; i < lines; ++i) {
    Line line(length);
    total_ns += line.cancel_middle_ns(cancels);
  }
  return total_ns / static_cast<double>(cancels * lines);
}

const Registration kQueue1m({
    .suite = "sync",
    .name = "queue_1m",
    .ours = [] { return queue_ns(kLong); },
    .peer = [] { return queue_ns(kShort); },
    .peer_name = "ours with a thousand waiters",
    .limit = {.ratio_max = 4},
    .rounds = 3,
});

const Registration kCancel1m({
    .suite = "sync",
    .name = "cancel_1m",
    .ours = [] { return cancel_ns(kLong, 1'000, 1); },
    .peer = [] { return cancel_ns(kShort, 100, 10); },
    .peer_name = "ours with a thousand waiters",
    .limit = {.ratio_max = 4},
    .rounds = 3,
});

}  // namespace

double uncontended_mutex_ns() {
  Mutex mutex;
  std::uint64_t count = 0;
  return per_uncontended(lock_often(mutex, count), count);
}

double handoff_mutex_ns() { return plain_relay().ns_per_handoff; }

}  // namespace holdfast::bench
