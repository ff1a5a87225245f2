// SPDX-License-Identifier: Apache-2.0
// Cells that several processes change at once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <holdfast/state.hpp>

#include "child.hpp"
#include "increment_cell.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

template <typename Kind>
class CellProcesses : public StoreTest<Kind> {};
TYPED_TEST_SUITE(CellProcesses, SharedStoreKinds, StoreKindNames);

TYPED_TEST(CellProcesses, ThatChangeOneCellLoseNothing) {
  constexpr int kChildren = 2;
  constexpr int kTimes = 100;
  const Client store = this->open();
  std::vector<Child> children;
  for (int i = 0; i < kChildren; ++i) {
    children.emplace_back(std::vector<std::string>{"increment_cell", this->kind_.url(), "counter",
                                                   std::to_string(kTimes)});
  }
  for (Child& child : children) {
    child.until_ready();
  }
  for (const Child& child : children) {
    child.go();
  }
  const State state(*store);
  store.run(increment_cell(state, "counter", kTimes));
  for (Child& child : children) {
    EXPECT_EQ(child.answer(), "done");
  }
  EXPECT_EQ(store.run(state.global().cell<int>("counter").get()), (kChildren + 1) * kTimes);
}

TYPED_TEST(CellProcesses, SeeWhatTheCellHeldWhenTheStoreIsOpenedAgain) {
  {
    const Client store = this->open();
    const State state(*store);
    store.run(increment_cell(state, "counter", 3));
  }
  const Client store = this->open();
  const State state(*store);
  EXPECT_EQ(store.run(state.global().cell<int>("counter").get()), 3);
}

}  // namespace
}  // namespace holdfast::conformance
