// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace holdfast::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr uid_t kSomebody = 12345;

fs::path new_folder() {
  std::string name = (fs::temp_directory_path() / "holdfast_XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  return name;
}

class ConfigFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(weaker_.parent_path());
    chmod(weaker_.parent_path().c_str(), 0755);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const fs::path& file, const std::string& text, mode_t mode = 0644) {
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
  }
  [[nodiscard]] Config read() const { return read_config({{strong_, true}, {weaker_, false}}); }
  [[nodiscard]] std::string fault() const {
    try {
      static_cast<void>(read());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no fault";
  }
  /// What is wrong with one file that says this.
  std::string fault_in(const std::string& text) {
    write(strong_, text);
    return fault();
  }

  const fs::path folder_ = new_folder();
  const fs::path strong_ = folder_ / "holdfast.toml";
  const fs::path weaker_ = folder_ / "etc" / "holdfast.toml";
};

TEST_F(ConfigFiles, NeedNotBeThere) {
  const Config config = read();
  EXPECT_FALSE(config.store || config.lock_lease || config.lock_on_lost || config.lock_grace);
}

TEST_F(ConfigFiles, OfEachSettingTheStrongestCounts) {
  write(strong_, "# ours\nstore = 'sqlite:a.db'\n[lock]\ngrace = \"5s\"\n");
  write(weaker_, "store = 'sqlite:/b.db'\nlock = { lease = '1m', on_lost = 'kill', grace = '9s' }");
  const Config config = read();
  EXPECT_EQ(config.store->value, "sqlite:a.db");
  EXPECT_EQ(config.store->file, strong_);
  EXPECT_EQ(config.store->line, 2U);
  EXPECT_EQ(config.lock_grace->value, "5s");
  EXPECT_EQ(config.lock_grace->line, 4U);
  EXPECT_EQ(config.lock_lease->value, "1m");
  EXPECT_EQ(config.lock_lease->file, weaker_);
  EXPECT_EQ(config.lock_on_lost->value, "kill");
}

TEST_F(ConfigFiles, AFaultNamesTheFileTheLineAndTheKey) {
  const std::string at = strong_.string();
  EXPECT_EQ(fault_in("\nstroe = 'x'"),
            at + ":2: unknown key 'stroe'; known are 'store' and [lock]");
  EXPECT_EQ(fault_in("[lock]\n\nleese = '1s'"),
            at + ":3: unknown key 'leese' in [lock]; known are 'lease', 'on_lost' and 'grace'");
  EXPECT_EQ(fault_in("[locks]"), at + ":1: unknown key 'locks'; known are 'store' and [lock]");
  EXPECT_EQ(fault_in("[lock]\nlease = 30"),
            at + ":2: 'lease' is a number, and has to be a text; write lease = \"30s\"");
  EXPECT_THAT(fault_in("store = ['a']"), HasSubstr(":1: 'store' is a list"));
  EXPECT_THAT(fault_in("store = true"), HasSubstr(":1: 'store' is true or false"));
  EXPECT_THAT(fault_in("store = 1979-05-27"), HasSubstr(":1: 'store' is a time"));
  EXPECT_THAT(fault_in("lock = 1"), HasSubstr(":1: 'lock' is a number, and has to be a table"));
  EXPECT_THAT(fault_in("[[lock]]"), HasSubstr(":1: 'lock' is a list, and has to be a table"));
  EXPECT_THAT(fault_in("store = ''"), HasSubstr(":1: 'store': it is empty"));
  EXPECT_THAT(fault_in("[lock]\nlease = '5'"), HasSubstr(":2: 'lease': '5' is no time"));
  EXPECT_THAT(fault_in("[lock]\nlease = '99ms'"), HasSubstr(":2: 'lease': '99ms' is no lease"));
  EXPECT_THAT(fault_in("[lock]\nlease = '25h'"), HasSubstr(":2: 'lease': '25h' is no lease"));
  EXPECT_THAT(fault_in("[lock]\ngrace = 'long'"), HasSubstr(":2: 'grace': 'long' is no time"));
  EXPECT_THAT(fault_in("[lock]\non_lost = 'die'"), HasSubstr("write term, kill or warn"));
}

TEST_F(ConfigFiles, AFaultInTheWeakerOneIsOneToo) {
  write(strong_, "store = 'sqlite:a.db'");
  write(weaker_, "store = 1");
  EXPECT_THAT(fault(), StartsWith(weaker_.string() + ":1: "));
}

TEST_F(ConfigFiles, ARelativePathIsOnlyForTheFolderThatItIsIn) {
  write(weaker_, "store = 'sqlite:a.db'");
  EXPECT_THAT(fault(), AllOf(StartsWith(weaker_.string() + ":1: "), HasSubstr("relative")));
  write(weaker_, "store = 'sqlite:/a.db'");
  EXPECT_EQ(read().store->value, "sqlite:/a.db");
}

TEST_F(ConfigFiles, WhatIsNoTomlIsToldWithItsPlaceAndWithoutItsSecrets) {
  for (const char* text :
       {"#\nstore = postgres://ada:s3cret@db", "#\nstore = 'postgres://ada:s3cret@db",
        "#\nstore = \"postgres://ada:\\qs3cret@db\"", "#\nstore = 's3cret' s3cret",
        "#\nstore: s3cret", "#\nstore = s3cret"}) {
    EXPECT_THAT(fault_in(text),
                AllOf(StartsWith(strong_.string() + ":2: no TOML: "), Not(HasSubstr("s3c"))));
  }
  EXPECT_THAT(fault_in("store = 1 # s3cret"), Not(HasSubstr("s3c")));
  EXPECT_THAT(fault_in("store = '\xff'"), HasSubstr(":1: no TOML: "));
}

TEST_F(ConfigFiles, AreRefusedIfOthersMayWriteThem) {
  for (const mode_t mode : {0646U, 0666U, 0602U}) {
    write(strong_, "store = 'sqlite:a.db'", mode);
    EXPECT_THAT(fault(), AllOf(StartsWith(strong_.string() + " is not used: other users may write"),
                               HasSubstr("chmod go-w")));
  }
  write(strong_, "store = 'sqlite:a.db'", 0664);
  EXPECT_TRUE(read().store) << "a group of our own";
}

TEST_F(ConfigFiles, AreRefusedIfOthersMayPutThemThere) {
  write(weaker_, "store = 'sqlite:/a.db'");
  chmod(weaker_.parent_path().c_str(), 0777);
  EXPECT_THAT(fault(), HasSubstr("other users may write to its folder"));
  chmod(weaker_.parent_path().c_str(), 01777);
  EXPECT_TRUE(read().store) << "ours, and only we may take it away";

  // A link leads into that folder.
  chmod(weaker_.parent_path().c_str(), 0777);
  const fs::path real = weaker_.parent_path() / "real.toml";
  write(real, "store = 'sqlite:/a.db'");
  fs::remove(weaker_);
  fs::create_symlink(real, strong_);
  EXPECT_THAT(fault(), HasSubstr("other users may write to its folder"));
  chmod(weaker_.parent_path().c_str(), 0755);
  EXPECT_TRUE(read().store);
}

TEST_F(ConfigFiles, AreRefusedIfTheyBelongToOthers) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  write(weaker_, "store = 'sqlite:/a.db'");
  const auto give = [](const fs::path& path, uid_t user, gid_t group) {
    ASSERT_EQ(lchown(path.c_str(), user, group), 0);
  };
  give(weaker_, kSomebody, 0);
  EXPECT_THAT(fault(), HasSubstr("it belongs to user 12345"));
  give(weaker_, 0, kSomebody);
  chmod(weaker_.c_str(), 0664);
  EXPECT_THAT(fault(), HasSubstr("other users may write to it"));
  chmod(weaker_.c_str(), 0644);
  EXPECT_TRUE(read().store);
  give(weaker_.parent_path(), kSomebody, 0);
  EXPECT_THAT(fault(), HasSubstr("its folder belongs to user 12345"));
  give(weaker_.parent_path(), 0, 0);

  fs::create_symlink(weaker_, strong_);
  EXPECT_TRUE(read().store);
  give(strong_, kSomebody, 0);
  EXPECT_THAT(fault(), HasSubstr("it is a link that belongs to user 12345"));
}

TEST_F(ConfigFiles, WhatIsNoFileOrTooLargeIsRefused) {
  ASSERT_EQ(mkfifo(strong_.c_str(), 0600), 0);
  EXPECT_THAT(fault(), HasSubstr("it is no regular file"));
  fs::remove(strong_);
  fs::create_directory(strong_);
  EXPECT_THAT(fault(), HasSubstr("it is no regular file"));
  fs::remove(strong_);
  write(strong_, std::string(70'000, '#'));
  EXPECT_THAT(fault(), HasSubstr("it has more than 65536 bytes"));
}

TEST(ConfigPlaces, AreHereThenOfTheUserThenOfTheSystem) {
  const auto set = [](const char* name, const char* value) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread.
    ASSERT_EQ(value == nullptr ? unsetenv(name) : setenv(name, value, 1), 0);
  };
  const auto files = [] {
    std::string text;
    for (const ConfigPlace& place : config_places()) {
      text.append(place.here ? "here" : " ");
      text.append(place.here ? "" : place.file.string());
    }
    return text;
  };
  set("HOME", "/home/ada");
  set("XDG_CONFIG_HOME", nullptr);
  set("XDG_CONFIG_DIRS", nullptr);
  EXPECT_EQ(files(),
            "here /home/ada/.config/holdfast/holdfast.toml /etc/xdg/holdfast/holdfast.toml "
            "/etc/holdfast/holdfast.toml");
  set("XDG_CONFIG_HOME", "/cfg");
  set("XDG_CONFIG_DIRS", "/one:relative::/two");
  EXPECT_EQ(files(),
            "here /cfg/holdfast/holdfast.toml /one/holdfast/holdfast.toml "
            "/two/holdfast/holdfast.toml /etc/holdfast/holdfast.toml");
  set("XDG_CONFIG_HOME", "relative");
  set("HOME", nullptr);
  set("XDG_CONFIG_DIRS", "/one");
  EXPECT_EQ(files(), "here /one/holdfast/holdfast.toml /etc/holdfast/holdfast.toml");
}

}  // namespace
}  // namespace holdfast::cli
