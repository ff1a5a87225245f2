// SPDX-License-Identifier: Apache-2.0
// An invoice is charged once, whatever dies when. First the machine stops at each commit there is,
// in memory and on virtual time; then real processes, on a real disk, are killed with -9.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <holdfast/engine.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::StepContext;
using holdfast::Task;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

// [gateway]
/// Keeps a folder for each payment, named after its key. Of all who make it one succeeds.
class Gateway {
 public:
  explicit Gateway(fs::path folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
  }
  std::string charge(const std::string& key) {
    ++requests_;
    fs::create_directory(folder_ / key);  // If it is there, the money has been taken before.
    return "receipt of " + key;
  }
  [[nodiscard]] std::int64_t charges() const {
    return std::distance(fs::directory_iterator(folder_), {});
  }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  fs::path folder_;
  int requests_ = 0;
};
// [gateway]

Gateway* gateway = nullptr;
std::function<void()> may_die = [] {};

// [pay]
Task<std::string> pay(Context& ctx, std::string invoice) {
  auto charge = ctx.run("charge", [](StepContext& step) {
    may_die();
    std::string receipt = gateway->charge(step.idempotency_key());
    may_die();  // Charged, and nobody knows: the next attempt asks with the same key.
    return receipt;
  });
  const std::string receipt = co_await charge;
  co_return invoice + ": " + receipt;
}
const auto kPayment = holdfast::workflow("pay", pay);

Task<std::string> pay_once(holdfast::Engine& engine, std::string invoice) {
  // Asked for again, it is the same run, also if that has ended.
  const holdfast::StartOptions once{.idempotency_key = invoice};
  const auto run = co_await engine.start(kPayment, invoice, once);
  may_die();
  std::string end = co_await run.result();
  may_die();
  co_return end;
}
// [pay]

/// Throws what a store throws that is out of order.
void serve(holdfast::Store& store, std::unique_ptr<holdfast::Session>& session,
           holdfast::Executor& executor, const holdfast::SessionOptions& options,
           const std::string& invoice) {
  session = holdfast::sync_wait(executor, holdfast::Session::open(store, options));
  holdfast::Engine engine(
      *session, {.executor = &executor, .warn = [](const std::string& /*that_it_died*/) {}});
  engine.add(kPayment);
  holdfast::sync_wait(executor, engine.begin());
  holdfast::sync_wait(executor, pay_once(engine, invoice));
  holdfast::sync_wait(executor, engine.stop());
  holdfast::sync_wait(executor, session->close());
}

// --- At each commit ------------------------------------------------------------------------------

/// Whether it got through before the machine stopped.
bool live_in_memory(holdfast::VirtualClock& clock, std::shared_ptr<holdfast::MemoryDisk> disk) {
  const auto store = holdfast::open_memory_store(std::move(disk));
  std::unique_ptr<holdfast::Session> session;
  holdfast::ManualExecutor executor(clock);
  try {
    serve(*store, session, executor, {.executor = &executor}, "invoice");
    return true;
  } catch (const holdfast::Error&) {
    return false;
  }
}

struct Counts {
  int deaths = 0;
  int requests = 0;
};

Counts die_at_each_commit(const fs::path& folder) {
  Counts counts;
  constexpr int kSeeds = 8;  // Before the commit, or after it and before anyone is told.
  for (std::uint64_t commit = 1, survivors = 0; survivors < kSeeds; ++commit) {
    survivors = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      fs::remove_all(folder);
      Gateway own(folder);
      gateway = &own;
      holdfast::VirtualClock clock;
      const auto disk = std::make_shared<holdfast::MemoryDisk>(
          clock, holdfast::MemoryFaults{.seed = seed, .crash_at_commit = commit});
      if (live_in_memory(clock, disk)) {
        ++survivors;
      } else {
        ++counts.deaths;
        disk->set_faults({});
        if (!live_in_memory(clock, disk)) {
          throw std::runtime_error("the second life did not pay");
        }
      }
      counts.requests += own.requests();
      if (own.charges() != 1) {
        throw std::runtime_error("charged " + std::to_string(own.charges()) + " times");
      }
    }
  }
  return counts;
}

// --- With -9 -------------------------------------------------------------------------------------

/// The program once more, which kills itself at the n-th point; 0: never.
int be_a_process(const std::string& folder, const std::string& invoice, int dies_at) {
  may_die = [left = dies_at]() mutable {
    if (--left == 0) {
      std::raise(SIGKILL);
    }
  };
  Gateway own(fs::path(folder) / "gateway");
  gateway = &own;
  const auto store = holdfast::open_store("sqlite:" + folder + "/payments.db");
  std::unique_ptr<holdfast::Session> session;
  holdfast::ThreadPool pool(2);
  serve(*store, session, pool, {.ttl = 300ms}, invoice);
  return 0;
}

/// Whether it got through.
bool start_process(std::string folder, std::string invoice, std::string dies_at) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::string self = "/proc/self/exe";
    std::array<char*, 5> words{self.data(), folder.data(), invoice.data(), dies_at.data(), nullptr};
    ::execv(self.c_str(), words.data());
    std::_Exit(EXIT_FAILURE);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child ||
      !(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL)) {
    throw std::runtime_error("a process that was started failed");
  }
  return WIFEXITED(status);
}

int kill_processes(const std::string& folder) {
  for (int point = 1;; ++point) {
    const std::string invoice = "invoice " + std::to_string(point);
    const bool survived = start_process(folder, invoice, std::to_string(point));
    if (!survived && !start_process(folder, invoice, "0")) {
      throw std::runtime_error("the second process did not pay");
    }
    if (Gateway(folder + "/gateway").charges() != point) {
      throw std::runtime_error(invoice + " was not charged once");
    }
    if (survived) {
      return point - 1;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 4) {
      return be_a_process(argv[1], argv[2], std::atoi(argv[3]));
    }
    const fs::path folder = argc > 1 ? argv[1] : "payments";
    fs::remove_all(folder);
    const Counts counts = die_at_each_commit(folder / "in_memory");
    std::printf("the machine stopped %d times, the gateway was asked %d times: charged once each\n",
                counts.deaths, counts.requests);
    const int kills = kill_processes(folder.string());
    std::printf("killed with -9 at %d points: charged once each\n", kills);
    return counts.deaths > 0 && kills > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
