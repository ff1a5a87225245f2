// SPDX-License-Identifier: Apache-2.0
#include <holdfast/stored_cell.hpp>

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <holdfast/memory_store.hpp>
#include <holdfast/state.hpp>

#include "coro/test_world.hpp"

namespace holdfast {
namespace {

using Json = boost::json::value;
using testing::error_text;

constexpr const char* kKey = "cell/user/42/n";

class StoredCells : public ::testing::Test {
 protected:
  template <typename T>
  T run(Task<T> task) {
    return world_.run(std::move(task));
  }
  std::optional<StoredCell> cell() { return run(inspect_cell(*store_, kKey)); }
  CellChange set(Json value, const CellExpectation& expected = {}) {
    return run(set_cell(*store_, kKey, std::move(value), expected));
  }

  testing::World world_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(world_.clock);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  testing::EndTasks end_tasks_{world_};
};

TEST_F(StoredCells, AreThoseOfPrograms) {
  State state(*store_);
  EXPECT_EQ(cell(), std::nullopt);
  run(state.user("42").cell<int>("n").set(7));
  EXPECT_EQ(cell()->key, kKey);
  EXPECT_EQ(cell()->value, Json(7));
  EXPECT_EQ(cell()->version, run(store_->get(kKey))->version);
  set(8);
  EXPECT_EQ(run(state.user("42").cell<int>("n").get()), 8);
}

TEST_F(StoredCells, AChangeTellsTheVersionThatItMade) {
  const CellChange first = set(1);
  EXPECT_TRUE(first.made);
  EXPECT_EQ(first.before, std::nullopt);
  EXPECT_EQ(first.version, cell()->version);
  const CellChange second = set(2);
  EXPECT_EQ(second.before, first.version);
  EXPECT_GT(second.version, first.version);
  EXPECT_EQ(second.version, cell()->version);
}

TEST_F(StoredCells, AChangeThatMakesNoDifferenceKeepsTheVersion) {
  const CellChange first = set(1);
  const CellChange again = set(1);
  EXPECT_TRUE(again.made);
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(cell()->version, first.version);
}

TEST_F(StoredCells, AnExpectationThatDoesNotHoldChangesNothingAndSaysWhatIsThere) {
  const CellChange missing = set(1, CellExpectation::at(3));
  EXPECT_FALSE(missing.made);
  EXPECT_EQ(missing.version, std::nullopt);
  EXPECT_EQ(cell(), std::nullopt);

  const Version version = *set(1, CellExpectation::absent()).version;
  for (const CellExpectation expected :
       {CellExpectation::absent(), CellExpectation::at(version + 1), CellExpectation::at(0)}) {
    const CellChange refused = set(2, expected);
    EXPECT_FALSE(refused.made);
    EXPECT_EQ(refused.version, version);
    EXPECT_FALSE(run(patch_cell(*store_, kKey, 2, expected)).made);
    EXPECT_FALSE(run(erase_cell(*store_, kKey, expected)).made);
  }
  EXPECT_EQ(cell()->version, version);
  EXPECT_TRUE(set(2, CellExpectation::at(version)).made);
  EXPECT_FALSE(set(3, CellExpectation::at(version)).made) << "it was spent by the last one";
  EXPECT_EQ(cell()->value, Json(2));
}

TEST_F(StoredCells, OfThoseWhoNameAVersionOneAloneSucceedsAlsoWithWhatIsThereAlready) {
  const Version version = *set(1).version;
  const CellChange same = set(1, CellExpectation::at(version));
  EXPECT_TRUE(same.made);
  EXPECT_GT(same.version, version);
  EXPECT_FALSE(set(2, CellExpectation::at(version)).made);
  EXPECT_TRUE(run(patch_cell(*store_, kKey, 1, CellExpectation::at(*same.version))).made);
  EXPECT_FALSE(set(2, CellExpectation::at(*same.version)).made);
}

TEST_F(StoredCells, TheVersionOfACellThatWasErasedNeverComesBack) {
  const Version version = *set(1).version;
  const CellChange erased = run(erase_cell(*store_, kKey, CellExpectation::at(version)));
  EXPECT_TRUE(erased.made);
  EXPECT_EQ(erased.before, version);
  EXPECT_EQ(erased.version, std::nullopt);
  const CellChange again = run(erase_cell(*store_, kKey));
  EXPECT_TRUE(again.made);
  EXPECT_EQ(again.before, std::nullopt);
  set(1);
  EXPECT_FALSE(set(2, CellExpectation::at(version)).made);
}

TEST_F(StoredCells, ALostAnswerToAConditionalChangeIsFoundAgainWithItsVersion) {
  std::optional<Version> version = set(-1).version;
  for (int seed = 0; seed < 100; ++seed) {
    disk_->set_faults({.seed = static_cast<std::uint64_t>(seed), .unknown_chance = 0.5});
    const CellChange change = set(seed, CellExpectation::at(*version));
    disk_->set_faults({});
    ASSERT_TRUE(change.made) << "seed " << seed;
    ASSERT_EQ(change.before, version);
    version = change.version;
    ASSERT_EQ(cell()->version, version) << "seed " << seed;
    ASSERT_EQ(cell()->value, Json(seed));
  }
}

TEST_F(StoredCells, APatchMerges) {
  set({{"a", 1}, {"b", 2}});
  const CellChange patched = run(patch_cell(*store_, kKey, {{"a", nullptr}, {"c", 3}}));
  EXPECT_EQ(*patched.value, (Json{{"b", 2}, {"c", 3}}));
  EXPECT_EQ(cell()->value, *patched.value);
  EXPECT_EQ(cell()->version, patched.version);
}

TEST_F(StoredCells, APatchThatLeavesNothingToWriteWritesNothing) {
  const CellChange patched = run(patch_cell(*store_, kKey, nullptr));
  EXPECT_TRUE(patched.made);
  EXPECT_EQ(patched.version, std::nullopt);
  EXPECT_EQ(cell(), std::nullopt);
}

TEST_F(StoredCells, AreListedByPrefixInPages) {
  State state(*store_);
  for (const char* name : {"a", "b/c", "b", "x"}) {
    run(state.user("42").cell<int>(name).set(1));
  }
  run(state.global().cell<int>("a").set(1));
  const std::string prefix = state.user("42").prefix();
  const StoredCellPage first = run(list_cells(*store_, prefix, {.limit = 3}));
  ASSERT_EQ(first.cells.size(), 3U);
  EXPECT_TRUE(first.more);
  EXPECT_EQ(place_of_cell(first.cells[2].key), (CellPlace{"user", "42", "b/c"}));
  const StoredCellPage rest =
      run(list_cells(*store_, prefix, {.after = first.cells.back().key, .limit = 3}));
  ASSERT_EQ(rest.cells.size(), 1U);
  EXPECT_FALSE(rest.more);
  EXPECT_EQ(rest.cells[0].key, "cell/user/42/x");
  EXPECT_EQ(run(list_cells(*store_, "cell/")).cells.size(), 5U);
  EXPECT_NE(error_text<InvalidArgument>([&] { run(list_cells(*store_, "gate/")); }).find("gate/"),
            std::string::npos);
}

TEST_F(StoredCells, WhatIsNoCellIsToldAndCanBeErased) {
  EXPECT_TRUE(run(store_->commit(Batch().put(kKey, "no JSON"))).committed());
  EXPECT_THROW(cell(), StoreCorrupt);
  EXPECT_THROW(set(1), StoreCorrupt);
  EXPECT_THROW(run(list_cells(*store_, "cell/")), StoreCorrupt);
  EXPECT_TRUE(run(erase_cell(*store_, kKey)).made);
  EXPECT_EQ(cell(), std::nullopt);
}

TEST_F(StoredCells, WhatIsStoredCanBeReadHoweverDeepItIs) {
  const auto nested = [](int levels, Json inner) {
    for (int i = 0; i < levels; ++i) {
      inner = boost::json::array({std::move(inner)});
    }
    return inner;
  };
  const Json empty_list = boost::json::array();
  for (const Json& deepest : {nested(64, 1), nested(63, empty_list)}) {
    set(deepest);
    EXPECT_EQ(cell()->value, deepest);
  }
  EXPECT_THROW(set(nested(65, 1)), InvalidArgument);
  EXPECT_THROW(set(nested(64, empty_list)), InvalidArgument) << "the 65th level has nothing in it";
  EXPECT_EQ(cell()->value, nested(63, empty_list));
}

TEST(PlaceOfCell, IsWhatTheKeyWasMadeFrom) {
  const State state;
  EXPECT_EQ(place_of_cell(state.org("a/b%").key_of("\n c")), (CellPlace{"org", "a/b%", "\n c"}));
  EXPECT_EQ(place_of_cell(state.request("r").key_of("x")), (CellPlace{"request", "r", "x"}));
  EXPECT_EQ(place_of_cell(state.session("s").key_of("x")), (CellPlace{"session", "s", "x"}));
  EXPECT_EQ(place_of_cell(state.execution("r").key_of("x")), (CellPlace{"execution", "r", "x"}));
  EXPECT_EQ(place_of_cell(state.workflow("w").key_of("x")), (CellPlace{"workflow", "w", "x"}));
  EXPECT_EQ(place_of_cell(state.global().key_of("x/y")), (CellPlace{"global", "", "x/y"}));
  for (const char* key :
       {"", "cell/", "cell/user/42", "cell/user/42/", "cell/user//n", "cell/x/y/z", "cell/global/",
        "cell/global/a/b", "gate/user/42/n", "cell/global/%zz"}) {
    EXPECT_EQ(place_of_cell(key), std::nullopt) << key;
  }
}

TEST(ParseCellValue, TellsWhereATextStopsBeingJson) {
  const auto fault = [](std::string_view text) {
    const auto parsed = parse_cell_value(text);
    const auto* found = std::get_if<JsonFault>(&parsed);
    return found == nullptr ? "none"
                            : std::to_string(found->line) + ":" + std::to_string(found->column);
  };
  EXPECT_EQ(fault(R"({"a": [1, 2.5, null]})"), "none");
  EXPECT_EQ(fault("{\"a\": 1,\n \"ä\": x}"), "2:7");
  EXPECT_EQ(fault("1 2"), "1:3");
  EXPECT_EQ(fault(""), "1:1");
  EXPECT_EQ(fault("[1,"), "1:4");
  EXPECT_EQ(fault("\"\xff\""), "1:2");
  EXPECT_EQ(fault(std::string(64, '[') + std::string(64, ']')), "none");
  EXPECT_EQ(fault(std::string(65, '[') + std::string(65, ']')), "1:65");
  EXPECT_NE(fault("1e999"), "none");
  const auto fraction = parse_cell_value("0.1234567890123457");
  EXPECT_EQ(std::get<Json>(fraction).as_double(), 0.1234567890123457);
}

}  // namespace
}  // namespace holdfast
