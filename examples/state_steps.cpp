// SPDX-License-Identifier: Apache-2.0
// Visits and carts of users, in cells: many tasks change them at once. With a URL such as
// sqlite:shop.db they are kept, and several of these programs may run at once.
#include <boost/describe/class.hpp>
#include <boost/json/serialize.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/holdfast.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/state.hpp>

namespace {

constexpr int kVisits = 50;

// [profile]
struct Profile {
  std::string name;
  std::int64_t visits = 0;
};
BOOST_DESCRIBE_STRUCT(Profile, (), (name, visits))

holdfast::Task<void> visit(const holdfast::State& state, std::string user, std::string name) {
  auto profile = state.user(user).cell<Profile>("profile");
  auto change = profile.update([name](Profile& it) {
    it.name = name;
    ++it.visits;
  });
  co_await change;  // It is in the store, whoever else changed it meanwhile.
}
// [profile]

// [cart]
holdfast::Task<std::string> shop(const holdfast::State& state, std::string user) {
  auto cart = state.user(user).cell<boost::json::value>("cart");
  co_await cart.erase();
  const boost::json::value start{{"currency", "EUR"}, {"note", "call first"}};
  co_await cart.patch(start);
  co_await cart.push("/items", "pen");
  co_await cart.push("/items", "ink");
  co_await cart.inc("/total", 7);
  co_await cart.set_record("/prices", "pen", 5);
  co_await cart.set_record("/prices", "ink", 2);
  co_await cart.delete_record("", "note");
  const boost::json::value all = co_await cart.get();
  co_return boost::json::serialize(all);
}
// [cart]

// [watch]
holdfast::Task<void> greet(const holdfast::State& state, std::string user, std::int64_t visits) {
  auto profile = state.user(user).cell<Profile>("profile");
  auto watch = profile.watch();
  for (;;) {
    const auto now = co_await watch.next();  // At first what is there, then each change.
    if (now && now->visits >= visits) {
      std::printf("welcome back, %s\n", now->name.c_str());
      co_return;
    }
  }
}
// [watch]

holdfast::Task<std::string> do_business(const holdfast::State& state) {
  auto profile = state.user("42").cell<Profile>("profile");
  const Profile before = co_await profile.get();
  std::vector<holdfast::Task<void>> tasks;
  tasks.push_back(greet(state, "42", before.visits + kVisits));
  for (int i = 0; i < kVisits; ++i) {
    tasks.push_back(visit(state, "42", "Ada"));
  }
  auto visits = holdfast::all(std::move(tasks));
  co_await visits;
  auto shopping = shop(state, "42");
  co_return co_await shopping;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto store = holdfast::open_store(argc > 1 ? argv[1] : "memory:");
    const holdfast::State state(*store);
    holdfast::ThreadPool pool;
    const std::string cart = holdfast::sync_wait(pool, do_business(state));
    std::printf("%d visits counted; the cart: %s\n", kVisits, cart.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
