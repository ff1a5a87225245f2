// SPDX-License-Identifier: Apache-2.0
#include "opening.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/file_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/store_error.hpp>

#include "test_support.hpp"

namespace holdfast::detail {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Names, modes and contents: what may not change when opening fails.
std::string image_of(const fs::path& folder) {
  std::vector<std::string> lines;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    // What processes tell each other is theirs to change.
    const bool has_text = item.is_regular_file() && item.path().filename() != Layout::kSidecar;
    struct stat info{};
    EXPECT_EQ(::lstat(item.path().c_str(), &info), 0);
    lines.push_back(item.path().string() + " " + std::to_string(info.st_mode) + " " +
                    (has_text ? text_of_file(item.path()) : ""));
  }
  std::sort(lines.begin(), lines.end());
  std::string image;
  for (const std::string& line : lines) {
    image += line + "\n";
  }
  return image;
}

class OpeningTest : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path store() const { return folder_.store(); }

  /// The text of the `Expected` that opening throws, having changed nothing.
  template <class Expected>
  std::string refusal(const fs::path& path) {
    const std::string before = image_of(folder_.path());
    std::string text = "no error";
    try {
      static_cast<void>(open_file_store(path));
    } catch (const Expected& error) {
      text = error.what();
    } catch (const std::exception& error) {
      text = "another error: "s + error.what();
    }
    EXPECT_EQ(image_of(folder_.path()), before);
    return text;
  }

  TestFolder folder_;
};

TEST_F(OpeningTest, MakesAStoreThatOnlyItsOwnerMayRead) {
  static_cast<void>(open_file_store(store()));
  EXPECT_EQ(fs::status(store()).permissions(), fs::perms::owner_all);
  write_rows(*open_backend(store()), {{"a", "1"}, {std::string(500, 'b'), "2"}});
  for (const auto& item : fs::recursive_directory_iterator(store())) {
    const auto expected =
        item.is_directory() ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write;
    EXPECT_EQ(item.status().permissions(), expected) << item.path();
  }
}

TEST_F(OpeningTest, TheExampleOfTheHeaderWorks) {
  ThreadPool pool(1);
  const auto store_object = open_file_store(store());
  EXPECT_EQ(store_object->url(), "file:" + store().string());
  Batch batch;
  batch.put("greeting", "hello");
  auto commit = store_object->commit(std::move(batch));
  const CommitOutcome outcome = sync_wait(pool, std::move(commit));
  ASSERT_NE(outcome.committed(), nullptr);
  EXPECT_THAT(text_of_file(store() / "entries" / "greeting.json"), HasSubstr("hello"));
  const auto entry = sync_wait(pool, store_object->get("greeting"));
  EXPECT_EQ(entry.value().version, outcome.committed()->version);
}

TEST_F(OpeningTest, AnEmptyFolderWillDo) {
  fs::create_directory(store());
  fs::permissions(store(), fs::perms::owner_all);
  static_cast<void>(open_file_store(store()));
  EXPECT_TRUE(fs::exists(store() / "store.json"));
}

TEST_F(OpeningTest, ARelativePathStaysWhereItWas) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const auto backend = open_backend("store/");
  fs::current_path(before);
  write_rows(*backend, {{"a", "1"}});
  EXPECT_TRUE(fs::exists(store() / "entries" / "a.json"));
}

TEST_F(OpeningTest, RefusesAFolderThatOthersMayWriteTo) {
  for (const auto others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::create_directory(store());
    fs::permissions(store(), fs::perms::owner_all | others);
    EXPECT_THAT(refusal<InvalidArgument>(store()), HasSubstr("chmod 700"));
    fs::remove(store());
  }
  static_cast<void>(open_file_store(store()));
  fs::permissions(store(), fs::perms::owner_all | fs::perms::group_write);
  EXPECT_THAT(refusal<InvalidArgument>(store()), HasSubstr("chmod 700")) << "a store, too";
}

TEST_F(OpeningTest, RefusesAFolderOfSomebodyElse) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a folder away";
  }
  fs::create_directory(store());
  ASSERT_EQ(::chown(store().c_str(), 12'345, 12'345), 0);
  EXPECT_THAT(refusal<NoAccess>(store()), HasSubstr("belongs to user 12345"));
}

TEST_F(OpeningTest, RefusesAFolderThatCannotBeWritten) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may write anywhere";
  }
  fs::create_directory(store());
  fs::permissions(store(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(refusal<NoAccess>(store()), HasSubstr("may read and write"));
}

TEST_F(OpeningTest, RefusesPathsThatCannotBe) {
  EXPECT_THAT(refusal<InvalidArgument>(""), HasSubstr("empty"));
  EXPECT_THAT(refusal<InvalidArgument>(folder_.path() / "no" / "such" / "place"),
              HasSubstr("Make the folder that it is in first"));
  EXPECT_THAT(refusal<InvalidArgument>(folder_.path() / std::string(1'000, 'a')),
              HasSubstr("shorter"));
  EXPECT_THAT(refusal<InvalidArgument>(folder_.path() / std::string(300, 'a')),
              HasSubstr("cannot be used"));
  write_file(store(), "a file");
  EXPECT_THAT(refusal<NotAStore>(store()), HasSubstr("no folder"));
}

TEST_F(OpeningTest, RefusesAFolderOfOtherThings) {
  fs::create_directory(store());
  fs::permissions(store(), fs::perms::owner_all);
  write_file(store() / "letter.txt", "dear");
  EXPECT_THAT(refusal<NotAStore>(store()), HasSubstr("letter.txt"));
  write_file(store() / "store.json", R"({"shop":"of somebody"})");
  EXPECT_THAT(refusal<NotAStore>(store()), HasSubstr("store.json"));
}

TEST_F(OpeningTest, AStoreThatIsMadeMeanwhileIsOne) {
  bool made = false;
  const Files files([&](Files::Step step, const fs::path&) {
    if (step == Files::Step::kList && !std::exchange(made, true)) {
      write_rows(*open_backend(store()), {{"a", "1"}});
    }
    return 0;
  });
  fs::create_directory(store());
  fs::permissions(store(), fs::perms::owner_all);
  EXPECT_EQ(open_folder(files, store()).folder(), store());
  EXPECT_TRUE(made);
}

TEST_F(OpeningTest, RefusesANewerFormatWithBothNumbers) {
  static_cast<void>(open_file_store(store()));
  write_file(store() / "store.json", R"({"holdfast":"file store","format":2,"unknown":[]})");
  const std::string text = refusal<NewerFormat>(store());
  EXPECT_THAT(text, HasSubstr("format 2"));
  EXPECT_THAT(text, HasSubstr("up to 1"));
}

TEST_F(OpeningTest, RefusesADamagedStoreByTheNameOfTheFile) {
  write_rows(*open_backend(store()), {{"a", "1"}});
  const std::string whole = text_of_file(store() / "store.json");
  write_file(store() / "store.json", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal<StoreCorrupt>(store()), HasSubstr("store.json"));
  fs::remove(store() / "store.json");
  EXPECT_THAT(refusal<StoreCorrupt>(store()), HasSubstr("store.json"));
  write_file(store() / "store.json", whole);
  write_file(store() / "journal.json", "{}");
  EXPECT_THAT(refusal<StoreCorrupt>(store()), HasSubstr("journal.json"));
  fs::remove(store() / "journal.json");
  fs::remove_all(store() / "entries");
  EXPECT_THROW(static_cast<void>(all_rows(*open_backend(store()))), StoreCorrupt);
}

}  // namespace
}  // namespace holdfast::detail
