// SPDX-License-Identifier: Apache-2.0
#include <holdfast/open_store.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>

#include "base/temp_folder.hpp"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class OpenStore : public ::testing::Test {
 protected:
  [[nodiscard]] std::string url(const std::string& rest) const {
    return "sqlite:" + (folder_ / rest).string();
  }
  [[nodiscard]] bool is_empty() const { return fs::is_empty(folder_); }

  testing::TempFolder own_;
  const fs::path folder_ = own_.path();
};

template <typename Refusal, typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Refusal& error) {
    return error.what();
  } catch (const Error& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

std::string refused_url(const std::string& url) {
  return refusal<InvalidArgument>([&] { static_cast<void>(open_store(url)); });
}

TEST_F(OpenStore, SaysWhatIsWrongWithAUrlAndMakesNothing) {
  EXPECT_THAT(refused_url("state.db"), HasSubstr("for a file write sqlite:state.db"));
  EXPECT_THAT(refused_url("sqllite:state.db"),
              HasSubstr("known are 'memory:', 'file:', 'sqlite:'"));
  EXPECT_THAT(refused_url("memory:name"), HasSubstr("a store in memory has none"));
  EXPECT_THAT(refused_url("memory:?create=no"), HasSubstr("unknown option 'create'"));
  EXPECT_THAT(refused_url(url("a?sync")), HasSubstr("without a value"));
  EXPECT_THAT(refused_url(url("a?snyc=strict")), HasSubstr("unknown option 'snyc'"));
  EXPECT_THAT(refused_url(url("a?sync=hard")), HasSubstr("write strict or relaxed"));
  EXPECT_THAT(refused_url(url("a?create=maybe")), HasSubstr("write yes or no"));
  EXPECT_THAT(refused_url(url("a?busy_timeout=-5s")), HasSubstr("is no time"));
  EXPECT_THAT(refused_url(url("a%2")), HasSubstr("bad escape"));
  EXPECT_THAT(refused_url("sqlite:?sync=strict"), HasSubstr("has no path"));
  EXPECT_TRUE(is_empty());
}

TEST_F(OpenStore, UnescapesPaths) {
  {
    const auto store = open_store(url("50%25 %3f?sync=relaxed&busy_timeout=1s"));
  }
  EXPECT_TRUE(fs::exists(folder_ / "50% ?"));
}

TEST_F(OpenStore, MakesNoStoreWhenAskedNotTo) {
  const auto call = [&] { static_cast<void>(open_store(url("a?create=no"))); };
  EXPECT_THAT(refusal<NoSuchStore>(call), HasSubstr("there is no store at"));
  EXPECT_TRUE(is_empty());
  {
    const auto made = open_store(url("a?create=yes"));
  }
  EXPECT_NO_THROW(call());
}

TEST_F(OpenStore, AnEmptyFileIsNoStoreThatExists) {
  std::ofstream(folder_ / "a").close();
  EXPECT_THAT(refusal<NoSuchStore>([&] { static_cast<void>(open_existing_store(url("a"))); }),
              HasSubstr("is empty"));
  EXPECT_EQ(fs::file_size(folder_ / "a"), 0U);
}

TEST_F(OpenStore, AnExistingStoreIsNeverMadeWhateverTheUrlSays) {
  const auto call = [&] { static_cast<void>(open_existing_store(url("a?create=yes"))); };
  EXPECT_THAT(refusal<NoSuchStore>(call), HasSubstr("there is no store at"));
  EXPECT_TRUE(is_empty());
  EXPECT_THAT(refusal<NoSuchStore>([] { static_cast<void>(open_existing_store("memory:")); }),
              HasSubstr("none to open"));
}

TEST_F(OpenStore, AStoreStaysTheSameWhenTheWorkingDirectoryChanges) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const auto store = open_store("sqlite:a.db");
  fs::current_path(before);
  EXPECT_EQ(store->url(), "sqlite:" + (fs::canonical(folder_) / "a.db").string());
  ThreadPool pool(1);
  EXPECT_EQ(sync_wait(pool, store->get("key")), std::nullopt);
  EXPECT_FALSE(fs::exists(before / "a.db"));
}

TEST_F(OpenStore, ABackupTellsWhatItCopied) {
  const auto store = open_store(url("a"));
  ThreadPool pool(1);
  const auto outcome = sync_wait(pool, store->commit(Batch().put("x", "1").put("y", "2")));
  ASSERT_NE(outcome.committed(), nullptr);
  const BackupReport report = sync_wait(pool, store->backup(folder_ / "copy"));
  EXPECT_EQ(report.entries, 2U);
  EXPECT_EQ(report.bytes, fs::file_size(folder_ / "copy"));
  EXPECT_THROW(sync_wait(pool, store->backup(folder_ / "copy")), InvalidArgument);
  EXPECT_THROW(sync_wait(pool, store->backup(folder_ / "none" / "copy")), InvalidArgument);
}

TEST(RedactedUrl, HidesWhatIsSecretAndNothingElse) {
  EXPECT_EQ(redacted_url("postgres://ada:s3cret@db/app"), "postgres://ada:***@db/app");
  EXPECT_EQ(redacted_url("redis://:s3cret@db:6379/0"), "redis://:***@db:6379/0");
  EXPECT_EQ(redacted_url("postgres://ada:s3/c?r@et@db/app"), "postgres://ada:***@db/app");
  EXPECT_EQ(redacted_url("ada:s3cret@db"), "ada:***@db");
  EXPECT_EQ(redacted_url("postgres://db/app?user=ada&password=s3cret&sslmode=require"),
            "postgres://db/app?user=ada&password=***&sslmode=require");
  EXPECT_EQ(redacted_url("etcd://db?Auth_Token=s3cret"), "etcd://db?Auth_Token=***");
  for (const char* url : {"", "memory:", "sqlite:/home/a:b@c/x.db?sync=strict", "file:a@b",
                          "postgres://ada@db:5432/app", "postgres://db:5432/app", "no url"}) {
    EXPECT_EQ(redacted_url(url), url);
  }
}

TEST(RedactedUrl, IsWhatMessagesShow) {
  for (const char* url :
       {"postgers://ada:s3cret@db/app", "memory://ada:s3cret@db", "ada:s3cret@db",
        "postgres://ada:s3cret%zz@db/app", "sqlite:?password=s3cret", "x://a:b?s3cret@db"}) {
    const std::string message = refused_url(url);
    EXPECT_THAT(message, HasSubstr("***")) << message;
    EXPECT_EQ(message.find("s3c"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace holdfast
