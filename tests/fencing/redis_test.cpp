// SPDX-License-Identifier: Apache-2.0
// Fences in Redis: what depends on its script.
#include "redis_counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

class FencingInRedis : public ::testing::Test {
 protected:
  template <typename Act>
  static std::string error_of(const Act& act) {
    try {
      act();
      return "no error";
    } catch (const DatabaseError& error) {
      return error.what();
    }
  }

  servers::RedisServer server_{{"--repl-diskless-sync-delay", "0"}};
  RedisCounters counters_{std::to_string(server_.port())};
};

TEST_F(FencingInRedis, AStaleOneIsToldWithBothFences) {
  counters_.write("c", 8, 2);
  EXPECT_EQ(error_of([&] { counters_.write("c", 7, 1); }), "holdfast_stale_fence: 7 came after 8");
}

TEST_F(FencingInRedis, ACommandAnswersAsAlways) {
  EXPECT_THAT(counters_.run_fenced("c", "7", {"INCRBY", "c", "5"}), Optional(std::string("5")));
  EXPECT_THAT(counters_.run_fenced("c", "7", {"GET", "c"}), Optional(std::string("5")));
  EXPECT_EQ(counters_.run_fenced("c", "7", {"HGET", "h", "absent"}), std::nullopt);
  EXPECT_THAT(counters_.run_fenced("c", "7", {"SET", "c", "6"}), Optional(std::string("OK")));
  EXPECT_THAT(counters_.run_fenced("c", "8", {}), Optional(std::string("OK")));
  EXPECT_THAT(error_of([&] { counters_.run_fenced("c", "9", {"LPUSH", "c", "x"}); }),
              StartsWith("WRONGTYPE"));
  EXPECT_THAT(counters_.fence_of("c"), Optional(std::string("9"))) << "it was presented, though";
}

TEST_F(FencingInRedis, AKeyWithSomethingElseInItRefusesAll) {
  counters_.run({"SET", "{c}:fence", "007"});
  EXPECT_THAT(error_of([&] { counters_.read("c", 9); }), HasSubstr("{c}:fence has '007'"));
  counters_.run({"DEL", "{c}:fence"});
  counters_.run({"LPUSH", "{c}:fence", "7"});
  EXPECT_THAT(error_of([&] { counters_.read("c", 9); }), HasSubstr("WRONGTYPE"));
}

TEST_F(FencingInRedis, ItNeverExpires) {
  counters_.run({"SET", "{c}:fence", "7", "EX", "1000"});
  counters_.write("c", 7, 1);
  EXPECT_THAT(counters_.run({"TTL", "{c}:fence"}), Optional(std::string("-1")));
}

TEST_F(FencingInRedis, AReplicaRefusesReadsWithTheFenceThatItHas) {
  counters_.write("c", 7, 1);
  servers::RedisServer replica({"--replicaof", "127.0.0.1 " + std::to_string(server_.port())});
  replica.process().until_prints("MASTER <-> REPLICA sync: Finished with success");
  RedisCounters there(std::to_string(replica.port()));
  EXPECT_THAT(there.fence_of("c"), Optional(std::string("7")));
  EXPECT_THAT(error_of([&] { there.read("c", 7); }), HasSubstr("READONLY"));
}

}  // namespace

}  // namespace holdfast::fencing
