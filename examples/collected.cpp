// SPDX-License-Identifier: Apache-2.0
// Many starts, few runs: a page is indexed when its author has stopped typing, and parcels leave
// when the van is full or it is late. The process is stopped at every commit.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <holdfast/testing.hpp>

namespace {

using holdfast::Context;
using holdfast::Engine;
using holdfast::Task;
using holdfast::testing::StepCall;
using holdfast::testing::TestEngine;
using namespace std::chrono_literals;

void check(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

// [debounce]
struct Page {
  std::string url;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Page, (), (url, text))

std::string put_into_index(const Page& page) { return page.url + ": " + page.text; }

Task<std::string> index_page(Context& ctx, Page page) {
  auto index = ctx.run("index", [&] { return put_into_index(page); });
  std::string indexed = co_await index;
  co_return indexed;
}

// Five seconds after the last change of a page, and a minute after the first one at the latest.
const auto kIndex =
    holdfast::debounced(holdfast::workflow("index page", index_page),
                        {.quiet = 5s, .wait_max = 1min}, [](const Page& page) { return page.url; });
// [debounce]

void type_for_a_while(TestEngine& world) {
  std::string id;
  for (const char* text : {"D", "Du", "Durable"}) {
    const Page page{"/home", text};
    const auto handle = world.run([&](Engine& engine) { return engine.start(kIndex, page); });
    check(id.empty() || handle.id() == id, "all changes lead to one run");
    id = handle.id();
    world.skip(2s);
  }
  world.skip(10s);
  const auto run = world.find(kIndex.workflow(), id);
  check(world.result(run) == "/home: Durable", "the last change is indexed");
}

// [batch]
struct Parcel {
  std::string carrier;
  std::string number;
};
BOOST_DESCRIBE_STRUCT(Parcel, (), (carrier, number))

std::size_t load_van(const std::vector<Parcel>& parcels) { return parcels.size(); }

Task<std::size_t> ship(Context& ctx, std::vector<Parcel> parcels) {
  auto load = ctx.run("load", [&] { return load_van(parcels); });
  const std::size_t loaded = co_await load;
  co_return loaded;
}

// Three parcels of a carrier, or those that there are after a minute.
const auto kShip =
    holdfast::batched(holdfast::workflow("ship", ship), {.size_max = 3, .wait_max = 1min},
                      [](const Parcel& parcel) { return parcel.carrier; });
// [batch]

void send_parcels(TestEngine& world) {
  std::set<std::string> loaded;
  world.fake_step("load", [&](StepCall& call) {
    const auto parcels = call.run_input<std::vector<Parcel>>();
    check(parcels.size() <= 3, "a van takes three");
    for (const Parcel& parcel : parcels) {
      loaded.insert(parcel.number);
    }
    return parcels.size();
  });
  for (const char* number : {"1", "2", "3", "4"}) {
    const Parcel parcel{"north", number};
    static_cast<void>(world.run([&](Engine& engine) { return engine.start(kShip, parcel); }));
  }
  // One that was told twice, as the process died before it answered, is in a van twice.
  check(loaded.size() >= 2, "the first van is full, and leaves at once");
  world.skip(2min);
  check(loaded.size() == 4, "the last parcel leaves when it is late");
}

}  // namespace

int main() {
  try {
    const auto typed = holdfast::testing::crash_everywhere({kIndex}, type_for_a_while);
    const auto sent = holdfast::testing::crash_everywhere({kShip}, send_parcels);
    std::printf("it died %d times, and the last change was indexed\n",
                static_cast<int>(typed.crashes));
    std::printf("it died %d times, and each parcel left\n", static_cast<int>(sent.crashes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
