// SPDX-License-Identifier: Apache-2.0
#include "cell_key.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include <holdfast/memory_store.hpp>
#include <holdfast/state.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using namespace std::string_literals;

TEST(CellKeys, AreReadable) {
  const State state;
  EXPECT_EQ(state.request("r1").key_of("a"), "cell/request/r1/a");
  EXPECT_EQ(state.session("s1").key_of("a"), "cell/session/s1/a");
  EXPECT_EQ(state.user("42").key_of("profile"), "cell/user/42/profile");
  EXPECT_EQ(state.org("acme").key_of("a"), "cell/org/acme/a");
  EXPECT_EQ(state.global().key_of("a"), "cell/global/a");
  EXPECT_EQ(state.execution("run-1").key_of("a"), "cell/execution/run-1/a");
  EXPECT_EQ(state.workflow("fulfil").key_of("a"), "cell/workflow/fulfil/a");
  EXPECT_EQ(state.user("a@b.c").key_of("Größe x.y-z"), "cell/user/a@b.c/Größe x.y-z");
  EXPECT_EQ(state.user("a/b%\n\x7f"s + "\0"s).key_of("/"), "cell/user/a%2Fb%25%0A%7F%00/%2F");
}

TEST(CellKeys, NoTwoCellsShareOne) {
  const State state;
  const std::vector<std::string> texts{"a",     "/",      "%",    "%2F", "a/b", "a%2Fb", "a%252Fb",
                                       "b",     "a/",     "/a",   "\n",  "%0A", "\x7f",  "%7F",
                                       "a/b/c", "global", "user", ".",   "..",  " ",     "\xff"};
  std::set<std::string> keys;
  std::size_t cells = 0;
  for (const std::string& name : texts) {
    keys.insert(state.global().key_of(name));
    ++cells;
    for (const std::string& id : texts) {
      for (const Scope& scope : {state.request(id), state.session(id), state.user(id),
                                 state.org(id), state.execution(id), state.workflow(id)}) {
        keys.insert(scope.key_of(name));
        ++cells;
      }
    }
  }
  EXPECT_EQ(keys.size(), cells);
}

TEST(CellKeys, EmptyAndTooLongOnesAreRefusedAndTheLongestFitIntoAStore) {
  testing::World world;
  const auto store = open_memory_store();
  const State state(*store);
  const std::string longest(kCellNameBytesMax, '/');
  const std::string too_long(kCellNameBytesMax + 1, 'x');
  EXPECT_THROW(static_cast<void>(state.user("")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(state.user(too_long)), InvalidArgument);
  EXPECT_THROW(static_cast<void>(state.global().key_of("")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(state.global().cell<int>(too_long)), InvalidArgument);
  auto cell = state.session(longest).cell<int>(longest);
  world.run(cell.set(1));
  EXPECT_EQ(world.run(cell.get()), 1);
}

}  // namespace
}  // namespace holdfast
