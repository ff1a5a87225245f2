// SPDX-License-Identifier: Apache-2.0
// Three trainings share two GPUs. Each epoch that ends renews the permit; one training goes silent,
// so the next in line gets its GPU, and what it saves when it wakes is refused. Played with a crash
// at every commit.
#include <boost/describe/class.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <holdfast/permit_pool.hpp>
#include <holdfast/testing.hpp>
#include <holdfast/this_task.hpp>

namespace {

using holdfast::Context;
using holdfast::Permit;
using holdfast::PermitPool;
using holdfast::StepContext;
using holdfast::Task;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

constexpr int kEpochs = 5;

/// Where the weights are, outside of everything: it knows the greatest fence for each GPU, and
/// refuses what comes with a lesser one.
class Disk {
 public:
  // [disk]
  [[nodiscard]] bool load(const std::string& gpu, std::uint64_t fence) {
    std::uint64_t& greatest = fences_[gpu];
    greatest = std::max(greatest, fence);
    return fence == greatest;
  }
  [[nodiscard]] bool save(const std::string& gpu, std::uint64_t fence, const std::string& model) {
    const bool is_taken = load(gpu, fence);
    (is_taken ? saved_ : refused_)[model] += 1;
    return is_taken;
  }
  // [disk]
  [[nodiscard]] int saved(const std::string& model) { return saved_[model]; }
  [[nodiscard]] int refused(const std::string& model) { return refused_[model]; }

 private:
  std::map<std::string, std::uint64_t> fences_;
  std::map<std::string, int> saved_;
  std::map<std::string, int> refused_;
};
Disk* disk = nullptr;

struct Job {
  std::string model;
  int silent_in = 0;  ///< The epoch that takes far too long; 0: none.
};
BOOST_DESCRIBE_STRUCT(Job, (), (model, silent_in))

// [train]
const PermitPool kGpus("gpu-pool", 2);

/// False: the GPU is another's by now.
Task<bool> train_epoch(std::string model, holdfast::Duration time, std::string gpu,
                       std::uint64_t fence) {
  co_await holdfast::this_task::sleep_for(time);
  co_return disk->save(gpu, fence, model);
}

Task<std::string> train(Context& ctx, Job job) {
  Permit gpu = co_await kGpus.acquire(ctx, {.lease = 10min, .reason = job.model});
  auto load = ctx.run("load", [&] { return disk->load(gpu.slot(), gpu.fence()); });
  co_await load;  // From here on, whoever had it before can save nothing.
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const holdfast::Duration time = epoch == job.silent_in ? 1h : 4min;
    auto work = ctx.run("epoch", [&](StepContext& /*step*/) {
      return train_epoch(job.model, time, gpu.slot(), gpu.fence());
    });
    const bool is_saved = co_await work;
    const bool is_held = co_await gpu.renew(ctx, 10min);
    if (!is_saved || !is_held) {
      co_return job.model + " has lost its GPU";
    }
  }
  co_return job.model + " is trained";
}
const auto kTrain = holdfast::workflow("train", train);
// [train]

void check(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

void train_all(TestEngine& world) {
  Disk here;
  disk = &here;
  const auto steady = world.start(kTrain, {.model = "steady"}, {.id = "steady"});
  const auto silent = world.start(kTrain, {.model = "silent", .silent_in = 2}, {.id = "silent"});
  const auto patient = world.start(kTrain, {.model = "patient"}, {.id = "patient"});

  check(world.result(steady) == "steady is trained", "every epoch has renewed its permit");
  check(world.result(patient) == "patient is trained", "it got the GPU that fell silent");
  check(world.result(silent) == "silent has lost its GPU", "though its run went on");
  check(here.saved("silent") >= 1 && here.refused("silent") >= 1, "what came late was refused");
  check(here.refused("steady") + here.refused("patient") == 0, "and nothing else");
}

}  // namespace

int main() {
  try {
    const auto report = holdfast::testing::crash_everywhere({kTrain}, train_all);
    std::printf("two trained, one fell silent, lost its GPU, and was refused. It died %d times\n",
                static_cast<int>(report.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
