// SPDX-License-Identifier: Apache-2.0
// Runs that hold locks and wait for them, for the tests.
//
//   run_maker work URL NAME                 drives runs, says "ready", and ends with its input
//   run_maker start URL TYPE ID LOCK [QUEUE]  starts a run, also if nobody drives it
//   run_maker signal URL ID                 tells it to go on
//
// What runs do when they have their LOCK: `holds` waits for a signal, `calls` is at a step that
// fails, `naps` sleeps, `delegates` waits for a child, which wants the lock 'b' and is called as
// its parent with '-child' behind it. No worker knows `unknown`.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::RunLock;
using holdfast::Task;
using namespace std::chrono_literals;

Task<void> hold(Context& ctx, std::string lock_name) {
  const holdfast::LockOptions options{.priority = 3, .reason = "to be shown"};
  const RunLock lock = co_await ctx.lock(lock_name, options);
  co_await ctx.signal<std::string>("go");
  co_await ctx.sleep(1ms);  // An operation that has to be refused to one that has lost its lock.
}
const auto kHolds = holdfast::workflow("holds", hold);

Task<void> call(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  const holdfast::StepOptions seldom{.retry = {.pause_first = 1h, .pause_max = 1h}};
  auto step = ctx.run("call vendor", [] { throw std::runtime_error("no route"); }, seldom);
  co_await step;
}
const auto kCalls = holdfast::workflow("calls", call);

Task<void> nap(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  co_await ctx.sleep(1h);
}
const auto kNaps = holdfast::workflow("naps", nap);

Task<void> delegate(Context& ctx, std::string lock_name) {
  const RunLock lock = co_await ctx.lock(lock_name);
  const std::string id = ctx.run_id() + "-child";
  const std::string wanted = "b";
  const holdfast::ChildOptions named{.id = id};
  co_await ctx.child(kHolds, wanted, named);
}
const auto kDelegates = holdfast::workflow("delegates", delegate);

/// A process on the store: `engine` drives nothing until it is told to.
struct Process {
  Process(const std::string& url, std::string_view name) : store(holdfast::open_store(url)) {
    session = holdfast::sync_wait(pool, holdfast::Session::open(*store, {.ttl = 2s, .name = name}));
    engine =
        std::make_unique<holdfast::Engine>(*session, holdfast::EngineOptions{.executor = &pool});
  }

  std::unique_ptr<holdfast::Store> store;
  std::unique_ptr<holdfast::Session> session;
  holdfast::ThreadPool pool{2};
  std::unique_ptr<holdfast::Engine> engine;
};

void work(Process& process) {
  process.engine->add(kHolds);
  process.engine->add(kCalls);
  process.engine->add(kNaps);
  process.engine->add(kDelegates);
  holdfast::sync_wait(process.pool, process.engine->begin());
  std::cout << "ready" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  holdfast::sync_wait(process.pool, process.engine->stop());
}

void run(const std::vector<std::string>& words) {
  const std::string& action = words.at(0);
  Process process(words.at(1), action == "work" ? words.at(2) : action);
  if (action == "work") {
    work(process);
  } else if (action == "start") {
    const std::string queue = words.size() > 5 ? words[5] : "";
    const holdfast::StartOptions options{.id = words.at(3), .queue = queue};
    static_cast<void>(holdfast::sync_wait(
        process.pool,
        process.engine->start_run(words.at(2), boost::json::value(words.at(4)), options)));
  } else if (action == "signal") {
    const std::string word = "gone";
    holdfast::sync_wait(process.pool, process.engine->signal(words.at(2), "go", word));
  } else {
    throw std::runtime_error("unknown action " + action);
  }
  holdfast::sync_wait(process.pool, process.session->close());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_maker: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
