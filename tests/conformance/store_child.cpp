// SPDX-License-Identifier: Apache-2.0
// Another process that uses a store, for processes_test.cpp:
//
//   store_child increment URL KEY TIMES     adds to a counter by compare-and-swap
//   store_child increment_cell URL NAME TIMES   adds to a cell from many tasks at once
//   store_child race_absent URL PREFIX N NAME   how many of N keys it was the first to make
//   store_child put URL KEY VALUE           the version
//   store_child time URL                    the store's time in nanoseconds
//   store_child await URL KEY VALUE         watches until the key has that value
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/store.hpp>

#include "compare_and_swap.hpp"
#include "deadline.hpp"
#include "increment_cell.hpp"

namespace holdfast::conformance {
namespace {

using Arguments = std::vector<std::string>;

void say_ready() { std::cout << "ready" << std::endl; }

/// Says that it is ready, and returns when it is told to go.
void until_told() {
  say_ready();
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("nobody is left to say go");
  }
}

Task<void> until_value(Store& store, std::string key, std::string value) {
  Watch watch = store.watch(key);
  bool ready = false;
  for (;;) {
    const std::optional<Entry> entry = co_await store.get(key);
    if (entry && entry->value == value) {
      co_return;
    }
    if (!std::exchange(ready, true)) {
      say_ready();
    }
    co_await watch.changed();
  }
}

std::string act(ThreadPool& pool, Store& store, const Arguments& arguments) {
  const std::string& verb = arguments.at(0);
  if (verb == "await") {
    run_in_time(pool, until_value(store, arguments.at(2), arguments.at(3)));
    return "seen";
  }
  until_told();
  if (verb == "increment") {
    run_in_time(pool, increment(store, arguments.at(2), std::stoi(arguments.at(3))));
    return "done";
  }
  if (verb == "increment_cell") {
    const State state(store);
    run_in_time(pool, increment_cell(state, arguments.at(2), std::stoi(arguments.at(3))));
    return "done";
  }
  if (verb == "race_absent") {
    return std::to_string(run_in_time(pool, race_for_absent(store, arguments.at(2), arguments.at(4),
                                                            std::stoi(arguments.at(3)))));
  }
  if (verb == "put") {
    Batch batch;
    batch.put(arguments.at(2), arguments.at(3));
    const CommitOutcome outcome = run_in_time(pool, store.commit(std::move(batch)));
    return std::to_string(outcome.committed()->version);
  }
  if (verb == "time") {
    return std::to_string(run_in_time(pool, store.time()).time_since_epoch().count());
  }
  throw std::runtime_error("unknown verb: " + verb);
}

}  // namespace
}  // namespace holdfast::conformance

int main(int argc, char** argv) {
  using namespace holdfast;
  constexpr unsigned kLifetimeMax_s = 300;
  ::alarm(kLifetimeMax_s);  // Nobody's child hangs about for ever.
  try {
    const conformance::Arguments arguments(argv + 1, argv + argc);
    const std::unique_ptr<Store> store = open_store(arguments.at(1) + "?busy_timeout=40s");
    std::string answer;
    {
      ThreadPool pool(1);
      answer = conformance::act(pool, *store, arguments);
    }
    std::cout << answer << std::endl;
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "store_child: " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
