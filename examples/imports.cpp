// SPDX-License-Identifier: Apache-2.0
// Imports of many customers, two of each at a time. The process is stopped at every commit, and
// nobody is imported twice or forgotten.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/testing.hpp>
#include <holdfast/this_task.hpp>

namespace {

using holdfast::Context;
using holdfast::Task;
using holdfast::testing::StepCall;
using holdfast::testing::TestEngine;
using holdfast::testing::TestRun;
using namespace std::chrono_literals;

int load_rows(const std::string& file) { return static_cast<int>(file.size()); }

// [import]
struct Import {
  std::string customer;
  std::string file;
};
BOOST_DESCRIBE_STRUCT(Import, (), (customer, file))

Task<int> import_file(Context& ctx, Import import) {
  auto load = ctx.run("load", [&] { return load_rows(import.file); });
  const int rows = co_await load;
  co_return rows;
}

// Two of a customer and ten in all. Whoever comes too early is durable at once, and queued.
const auto kImport = holdfast::workflow("import", import_file)
                         .concurrency({.max = 2, .max_total = 10, .wait_max = 1h},
                                      [](const Import& import) { return import.customer; });
// [import]

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

std::size_t at_work(TestEngine& world, const std::vector<TestRun<int>>& runs) {
  std::size_t count = 0;
  for (const TestRun<int>& run : runs) {
    if (!world.has_ended(run) && !world.describe(run).queued) {
      ++count;
    }
  }
  return count;
}

void import_all(TestEngine& world) {
  std::set<std::string> imported;
  world.fake_step("load", [&](StepCall& call) {
    imported.insert(call.run_input<Import>().file);
    return 100;
  });
  std::vector<TestRun<int>> runs;
  for (const char* file : {"a", "b", "c", "d", "e"}) {
    runs.push_back(world.start(kImport, {.customer = "acme", .file = file}, {.delay = 1min}));
    check(at_work(world, runs) <= 5, "they begin in a minute");
  }
  for (int second = 0; second < 90; second += 10) {
    world.skip(10s);
    check(second < 50 || at_work(world, runs) <= 2, "two at a time");
  }
  for (const TestRun<int>& run : runs) {
    check(world.result(run) == 100, "each has its rows");
  }
  check(imported.size() == 5, "none is forgotten");
}

}  // namespace

int main() {
  try {
    const auto report = holdfast::testing::crash_everywhere({kImport}, import_all);
    std::printf("5 imports, two at a time; it died %d times, and none was forgotten\n",
                static_cast<int>(report.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
