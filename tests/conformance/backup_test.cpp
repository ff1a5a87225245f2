// SPDX-License-Identifier: Apache-2.0
// A backup is a store as of one moment, whose versions never meet those of the original.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "coro/test_world.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

using holdfast::testing::error_text;
using ::testing::HasSubstr;

template <typename Kind>
class Backups : public StoreTest<Kind> {};
TYPED_TEST_SUITE(Backups, StoreKinds, StoreKindNames);

TYPED_TEST(Backups, OpenAsAStoreWithTheSameEntries) {
  if constexpr (TypeParam::kBackup) {
    const Client store = this->open();
    for (int i = 0; i < 50; ++i) {
      static_cast<void>(store.commit(
          Batch().put(numbered("k", i), std::string(200, 'v')).erase(numbered("k", i / 3))));
    }
    const auto target = this->kind_.free_path();
    store.run(store->backup(target));
    const Client copy(this->pool_, TypeParam::open_at(target));
    EXPECT_EQ(copy.scan("").entries, store.scan("").entries);
    const CheckReport report = copy.run(copy->check());
    EXPECT_EQ(report.entries, store.scan("").entries.size());
    EXPECT_THAT(report.faults, ::testing::IsEmpty());
    copy.put("new", "in the copy");
    EXPECT_EQ(store.get("new"), std::nullopt);
  }
}

TYPED_TEST(Backups, GoOnFarAboveTheVersionsOfTheOriginal) {
  if constexpr (TypeParam::kBackup) {
    const Client store = this->open();
    const Version before = store.put("k", "v");
    const auto target = this->kind_.free_path();
    store.run(store->backup(target));
    Version since = before;
    for (int i = 0; i < 100; ++i) {
      since = store.put("k", std::to_string(i));
    }
    Client copy(this->pool_, TypeParam::open_at(target));
    const Version in_copy = copy.put("k", "w");
    EXPECT_GT(in_copy, since + 1'000'000);
    EXPECT_EQ(text_of(copy.commit(Batch().require_version("k", since).put("k", "x"))),
              "conflict on k: w");
    copy.close();
    copy = Client(this->pool_, TypeParam::open_at(target));
    EXPECT_GT(copy.put("k", "x"), in_copy);
  }
}

TYPED_TEST(Backups, KeepTheTimeGoing) {
  if constexpr (TypeParam::kBackup) {
    const Client store = this->open();
    store.put("k", "v");
    const StoreTime before = store.run(store->time());
    store.run(store->backup(this->kind_.free_path()));
    const Client copy(this->pool_, TypeParam::open_at(this->kind_.free_path()));
    EXPECT_GE(copy.run(copy->time()), before);
  }
}

Task<int> put_pairs(Store& store, const std::atomic<bool>& running) {
  int written = 0;
  do {
    Batch batch;
    batch.put("a", std::to_string(written)).put("b", std::to_string(written));
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    written += outcome.committed() != nullptr ? 1 : 0;
  } while (running);
  co_return written;
}

TYPED_TEST(Backups, AreOfOneMomentWhileOthersWrite) {
  if constexpr (TypeParam::kBackup) {
    const Client store = this->open();
    const Client other = this->open();
    store.put("a", "0");
    store.put("b", "0");
    std::atomic<bool> running = true;
    auto writing = spawn(this->pool_, put_pairs(*other, running));
    for (int i = 0; i < 5; ++i) {
      const auto target = this->kind_.free_path();
      store.run(store->backup(target));
      {
        const Client copy(this->pool_, TypeParam::open_at(target));
        EXPECT_EQ(copy.value("a"), copy.value("b"));
        EXPECT_THAT(copy.run(copy->check()).faults, ::testing::IsEmpty());
      }
      std::filesystem::rename(target, target.string() + numbered(".", i));
    }
    running = false;
    EXPECT_GT(writing.get(), 0);
  }
}

TYPED_TEST(Backups, RefuseATargetThatExists) {
  if constexpr (TypeParam::kBackup) {
    const Client store = this->open();
    store.put("k", "v");
    const auto target = this->kind_.free_path();
    std::ofstream(target) << "precious";
    EXPECT_THAT(error_text<InvalidArgument>([&] { store.run(store->backup(target)); }),
                HasSubstr(target.string()));
    std::string kept;
    std::ifstream(target) >> kept;
    EXPECT_EQ(kept, "precious");
    std::filesystem::remove(target);
    std::filesystem::create_directory(target);
    EXPECT_THROW(store.run(store->backup(target)), InvalidArgument);
    std::filesystem::remove(target);
    std::filesystem::create_symlink("nowhere", target);
    EXPECT_THROW(store.run(store->backup(target)), InvalidArgument);
  }
}

TYPED_TEST(Backups, OfWhatIsInMemoryAreRefused) {
  if constexpr (!TypeParam::kBackup) {
    const Client store = this->open();
    const testing::TempFolder dir;
    EXPECT_THAT(error_text<Unsupported>([&] { store.run(store->backup(dir.path() / "copy")); }),
                HasSubstr("backup"));
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "copy"));
  }
}

}  // namespace
}  // namespace holdfast::conformance
