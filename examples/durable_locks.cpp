// SPDX-License-Identifier: Apache-2.0
// A job that never overlaps itself, in whatever process it is started, and whose result is written
// only while it holds the lock.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

using namespace std::chrono_literals;

namespace {

// [nightly]
holdfast::Task<bool> nightly(holdfast::Store& store) {
  auto session = co_await holdfast::Session::open(store, {.ttl = 10s, .name = "nightly"});
  holdfast::Gates gates(*session);
  holdfast::DurableMutex once = gates.mutex("nightly");
  std::optional<holdfast::DurableHold> hold = co_await once.try_acquire();
  if (!hold) {
    co_await session->close();
    co_return false;  // It runs already, here or elsewhere.
  }
  holdfast::Batch report;
  hold->guard(report).put("report/today", "all is well");
  const holdfast::CommitOutcome outcome = co_await store.commit(std::move(report));
  const bool written = outcome.committed() != nullptr;  // Fenced, if the lock was lost meanwhile.
  static_cast<void>(co_await hold->release());
  co_await session->close();
  co_return written;
}
// [nightly]

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::puts("usage: durable_locks STORE_URL");
    return 64;
  }
  const auto store = holdfast::open_store(argv[1]);
  holdfast::ThreadPool pool(1);
  const bool ran = holdfast::sync_wait(pool, nightly(*store));
  const auto report = holdfast::sync_wait(pool, store->get("report/today"));
  std::printf("%s: %s\n", ran ? "ran" : "runs elsewhere",
              report ? report->value.c_str() : "no report");
  return ran && report ? 0 : 1;
}
