// SPDX-License-Identifier: Apache-2.0
// Ten jobs share four GPUs, each of which has a name. Here they are tasks; they might as well be
// processes, started by whomever, that know the same store.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

using namespace std::chrono_literals;

namespace {

constexpr int kJobs = 10;

/// The machine, which notices if two jobs use a GPU at once. Thread-safe.
class Machine {
 public:
  void begin(int job, const std::string& gpu) {
    const std::scoped_lock lock(mutex_);
    shared_ = shared_ || busy_[gpu] != 0;
    ++busy_[gpu];
    ++jobs_;
    std::printf("job %d on %s\n", job, gpu.c_str());
  }
  void end(const std::string& gpu) {
    const std::scoped_lock lock(mutex_);
    --busy_[gpu];
  }
  [[nodiscard]] bool was_shared() const { return shared_; }
  [[nodiscard]] int jobs() const { return jobs_; }

 private:
  std::mutex mutex_;
  std::map<std::string, int> busy_;
  bool shared_ = false;
  int jobs_ = 0;
};

// [gpus]
holdfast::GateDefinition all_gpus() {
  holdfast::GateDefinition definition;
  definition.capacity = 4;
  definition.slot_names = {"rack1/gpu0", "rack1/gpu1", "rack2/gpu0", "rack2/gpu1"};
  return definition;
}

holdfast::Task<void> train(holdfast::Gates& gates, Machine& machine, int job) {
  const holdfast::GateDefinition definition = all_gpus();
  holdfast::DurableSemaphore gpus = gates.gate("gpus", definition);
  holdfast::DurableHold hold = co_await gpus.acquire({.timeout = 1min, .reason = "training"});
  const std::string& gpu = definition.slot_names.at(hold.slots().front());
  machine.begin(job, gpu);
  co_await holdfast::this_task::sleep_for(5ms);
  machine.end(gpu);
  static_cast<void>(co_await hold.release());  // The next in line gets this very one.
}
// [gpus]

holdfast::Task<void> train_all(holdfast::Store& store, Machine& machine) {
  auto session = co_await holdfast::Session::open(store, {.ttl = 10s, .name = "training"});
  {
    holdfast::Gates gates(*session);
    std::vector<holdfast::Task<void>> jobs;
    jobs.reserve(kJobs);
    for (int job = 1; job <= kJobs; ++job) {
      jobs.push_back(train(gates, machine, job));
    }
    auto all_jobs = holdfast::all(std::move(jobs));
    co_await std::move(all_jobs);
  }
  co_await session->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::puts("usage: gpu_jobs STORE_URL");
    return 64;
  }
  const auto store = holdfast::open_store(argv[1]);
  holdfast::ThreadPool pool(2);
  Machine machine;
  holdfast::sync_wait(pool, train_all(*store, machine));
  std::printf("%d jobs, %s\n", machine.jobs(),
              machine.was_shared() ? "two of them on one GPU" : "never two on one GPU");
  return machine.jobs() == kJobs && !machine.was_shared() ? 0 : 1;
}
