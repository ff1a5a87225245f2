// SPDX-License-Identifier: Apache-2.0
// Makes locks for the tests that `holdfast lock` cannot make.
//
//   lock_maker named URL NAME SLOT...  its slots have names; nobody holds it
//   lock_maker rated URL NAME          one an hour: that was "early", and "late" waits for an hour
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/leased_gate.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using namespace std::chrono_literals;

holdfast::Task<void> use_once(holdfast::Store& store, const holdfast::LeasedGate& gate,
                              std::string holder) {
  holdfast::LeasedRequest request{.holder = holder, .now = {}, .lease = 1h};
  request.now = co_await store.time();
  const holdfast::LeasedGrant grant = co_await gate.try_acquire(request);
  if (grant.acquired) {
    const holdfast::LeasedHold hold{.holder = holder, .fence = grant.fence, .now = request.now};
    static_cast<void>(co_await gate.release(hold));
  }
}

void run(const std::vector<std::string>& words) {
  const std::string& action = words.at(0);
  const auto store = holdfast::open_store(words.at(1));
  holdfast::ThreadPool pool(1, store->clock());
  holdfast::GateDefinition definition;
  if (action == "named") {
    definition.slot_names.assign(words.begin() + 3, words.end());
    definition.capacity = definition.slot_names.size();
  } else if (action == "rated") {
    definition.rate_count = 1;
    definition.rate_period = 1h;
  } else {
    throw std::runtime_error("unknown action " + action);
  }
  const holdfast::LeasedGate gate(*store, words.at(2), definition);
  holdfast::sync_wait(pool, use_once(*store, gate, "early"));
  if (action == "rated") {
    holdfast::sync_wait(pool, use_once(*store, gate, "late"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lock_maker: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
