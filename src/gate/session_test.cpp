// SPDX-License-Identifier: Apache-2.0
#include <holdfast/session.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/lease.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

#include "coro/test_world.hpp"
#include "session_far_store.hpp"
#include "session_rules.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using detail::Liveness;
using testing::error_text;
using ::testing::HasSubstr;

constexpr Duration kTtl = 30s;
constexpr Duration kSoft = 20s;
constexpr Duration kHard = kTtl - kTtl / kLeaseDriftParts;

class SessionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Session> open(Store& store, std::uint64_t seed = 1, Duration ttl = kTtl) {
    auto session = world_.run(Session::open(
        store, {.ttl = ttl, .name = "worker", .executor = &world_.executor, .seed = seed}));
    world_.executor.drain();  // Its heartbeat begins.
    return session;
  }
  std::unique_ptr<Session> open() { return open(*store_); }
  void fault(const MemoryFaults& faults) { disk_->set_faults(faults); }
  void put(const std::string& key, const std::string& value) {
    ASSERT_NE(world_.run(store_->commit(Batch().put(key, value))).committed(), nullptr);
  }
  std::optional<Entry> row_of(const Session& session) {
    return world_.run(store_->get(session.key()));
  }
  std::size_t bury() { return world_.run(bury_expired(*store_)); }
  std::vector<SessionInfo> list() { return world_.run(list_sessions(*store_)); }
  StoreTime store_now() { return world_.run(store_->time()); }

  testing::World world_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(world_.clock);
  std::unique_ptr<Store> store_ = open_memory_store(disk_);
  testing::FarStore far_{*store_};
  testing::EndTasks end_tasks_{world_};
};

TEST_F(SessionTest, OpeningMakesARowThatSaysWhoItIs) {
  world_.advance(5s);
  const auto session = open();
  EXPECT_EQ(session->state(), SessionState::kLive);
  EXPECT_EQ(session->loss(), std::nullopt);
  EXPECT_TRUE(session->valid());
  EXPECT_EQ(session->name(), "worker");
  EXPECT_EQ(session->key(), "session/" + session->id());
  EXPECT_NO_THROW(session->check_alive());
  const std::vector<SessionInfo> sessions = list();
  ASSERT_EQ(sessions.size(), 1U);
  EXPECT_EQ(sessions[0].id, session->id());
  EXPECT_EQ(sessions[0].name, "worker");
  EXPECT_FALSE(sessions[0].host.empty());
  EXPECT_EQ(sessions[0].pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(sessions[0].began, store_now());
  EXPECT_EQ(sessions[0].expires, store_now() + kTtl);
  EXPECT_TRUE(sessions[0].live);
}

TEST_F(SessionTest, WithoutANameItHasThatOfTheProgramAndTheProcess) {
  const auto session = world_.run(Session::open(*store_, {.executor = &world_.executor}));
  EXPECT_EQ(session->name(), "gate_session_test " + std::to_string(::getpid()));
}

TEST_F(SessionTest, IdsSortByTimeAndAreNeverTheSame) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 20; ++i) {
    sessions.push_back(open(*store_, 7));  // Even of one seed at one moment.
    world_.advance(i % 2 == 0 ? 1ms : 0ms);
  }
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    EXPECT_EQ(sessions[i]->id().size(), 32U);
    EXPECT_EQ(sessions[i]->id().find_first_not_of("0123456789abcdef"), std::string::npos);
    for (std::size_t j = i + 2; j < sessions.size(); ++j) {
      EXPECT_LT(sessions[i]->id(), sessions[j]->id());
    }
  }
  EXPECT_EQ(list().size(), sessions.size());
  EXPECT_EQ(detail::session_id(StoreTime(0x056789abcdefms), 0xfedcba9876543210, 0x0f1e),
            "056789abcdeffedcba98765432100f1e");
}

TEST_F(SessionTest, RenewalsKeepItForAsLongAsTheProcessLives) {
  const auto session = open();
  const Version first = session->version();
  for (int i = 0; i < 60; ++i) {
    world_.advance(1min);
    ASSERT_EQ(session->state(), SessionState::kLive) << "minute " << i;
    ASSERT_EQ(bury(), 0U);
  }
  EXPECT_GT(session->version(), first);
  EXPECT_EQ(session->version(), row_of(*session)->version);
  EXPECT_EQ(list()[0].began, StoreTime());
  const auto beats = 3600.0 / 10;
  EXPECT_GT(static_cast<double>(disk_->commit_count()), beats * 0.99);
  EXPECT_LT(static_cast<double>(disk_->commit_count()), beats * 1.03) << "a little earlier";
}

TEST_F(SessionTest, ValidityIsCountedFromBeforeTheRequestLessAMargin) {
  far_.delay_max = 4s;
  const TimePoint before = world_.clock.now();
  const auto session = open(far_, 3);
  EXPECT_GT(world_.clock.now(), before + 1s) << "it took no time, so nothing was tested";
  EXPECT_EQ(session->valid_until(), before + kHard);
  EXPECT_TRUE(session->valid(before + kHard - 1ns));
  EXPECT_FALSE(session->valid(before + kHard));
}

TEST_F(SessionTest, ExpiresAtItsMomentAndNotBefore) {
  auto session = open();
  const std::optional<Entry> row = row_of(*session);
  const StoreTime expiry = store_now() + kTtl;
  EXPECT_EQ(detail::liveness(row, expiry - 1ns), Liveness::kLive);
  EXPECT_EQ(detail::liveness(row, expiry), Liveness::kExpired);
  EXPECT_EQ(detail::liveness(std::nullopt, expiry), Liveness::kGone);
  session.reset();
  world_.advance(kTtl - 1ns);
  EXPECT_EQ(bury(), 0U);
  EXPECT_TRUE(list()[0].live);
  world_.advance(1ns);
  EXPECT_FALSE(list()[0].live);
  EXPECT_EQ(bury(), 1U);
  EXPECT_EQ(bury(), 0U) << "once is enough";
  EXPECT_TRUE(list().empty());
}

TEST_F(SessionTest, ARenewalNeverRevivesWhatHasExpired) {
  far_.rate_percent = 300;
  const auto session = open(far_);
  EXPECT_TRUE(detail::renewed_session_row(*row_of(*session), StoreTime(kTtl - 1ns)));
  EXPECT_FALSE(detail::renewed_session_row(*row_of(*session), StoreTime(kTtl)));
  const std::uint64_t commits = disk_->commit_count();
  world_.advance(10s);  // 40 seconds over there.
  EXPECT_EQ(session->state(), SessionState::kLost) << "nobody took it, and yet it is over";
  EXPECT_EQ(session->loss(), SessionLoss::kDeposed);
  EXPECT_EQ(disk_->commit_count(), commits);
}

TEST_F(SessionTest, AFailedRenewalIsRepeatedAndTheHolderWorksOn) {
  const auto session = open();
  fault({.busy_chance = 1});
  world_.advance(18s);
  EXPECT_EQ(session->state(), SessionState::kLive);
  fault({});
  world_.advance(2'500ms);
  EXPECT_EQ(session->state(), SessionState::kLive);
  EXPECT_GT(session->valid_until(), world_.clock.now() + 27s);
  EXPECT_FALSE(session->at_risk_token().stop_requested());
}

TEST_F(SessionTest, TheSoftDeadlineComesBeforeTheHardOne) {
  const auto session = open();
  const std::stop_token at_risk = session->at_risk_token();
  const std::stop_token lost = session->lost_token();
  fault({.busy_chance = 1});
  world_.advance(kSoft - 1ns);
  EXPECT_EQ(session->state(), SessionState::kLive);
  EXPECT_FALSE(at_risk.stop_requested());
  world_.advance(1ns);
  EXPECT_EQ(session->state(), SessionState::kAtRisk);
  EXPECT_TRUE(at_risk.stop_requested());
  world_.advance(kHard - kSoft - 1ns);
  EXPECT_EQ(session->state(), SessionState::kAtRisk);
  EXPECT_TRUE(session->valid());
  EXPECT_NO_THROW(session->check_alive());
  EXPECT_FALSE(lost.stop_requested());
  world_.advance(1ns);
  EXPECT_EQ(session->state(), SessionState::kLost);
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_FALSE(session->valid());
  const std::string text = error_text<SessionLost>([&] { session->check_alive(); });
  EXPECT_THAT(text, HasSubstr(session->id()));
  EXPECT_THAT(text, HasSubstr("no renewal was acknowledged in time"));
  EXPECT_THAT(text, HasSubstr("busy, by its faults"));
  fault({});
  world_.advance(1min);
  EXPECT_EQ(session->state(), SessionState::kLost) << "it never comes back";
  EXPECT_EQ(session->loss(), SessionLoss::kDeposed) << "the store says so by now";
}

TEST_F(SessionTest, TimeAloneEndsItEvenIfNothingRuns) {
  const auto session = open();
  world_.clock.advance(kSoft);
  EXPECT_EQ(session->state(), SessionState::kAtRisk);
  world_.clock.advance(kHard - kSoft);
  EXPECT_EQ(session->state(), SessionState::kLost);
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
  EXPECT_THROW(session->check_alive(), SessionLost);
  EXPECT_THROW(static_cast<void>(session->commit(Batch())), SessionLost);
  world_.executor.drain();
  EXPECT_EQ(session->state(), SessionState::kLost) << "the heartbeat came too late";
}

TEST_F(SessionTest, FromAtRiskItComesBackWithANewToken) {
  const auto session = open();
  const std::stop_token first = session->at_risk_token();
  fault({.busy_chance = 1});
  world_.advance(25s);
  EXPECT_EQ(session->state(), SessionState::kAtRisk);
  fault({});
  world_.advance(3s);
  EXPECT_EQ(session->state(), SessionState::kLive);
  EXPECT_TRUE(first.stop_requested());
  const std::stop_token second = session->at_risk_token();
  EXPECT_FALSE(second.stop_requested());
  fault({.busy_chance = 1});
  world_.advance(25s);
  EXPECT_TRUE(second.stop_requested());
  EXPECT_FALSE(session->lost_token().stop_requested());
}

TEST_F(SessionTest, DeadlinesDoNotWaitForAStoreThatHangs) {
  const auto session = open(far_);
  far_.broken_from = world_.clock.now();
  far_.broken_until = far_.broken_from + 1h;
  const std::stop_token at_risk = session->at_risk_token();
  const std::stop_token lost = session->lost_token();
  world_.advance(kSoft);
  EXPECT_TRUE(at_risk.stop_requested());
  EXPECT_FALSE(lost.stop_requested());
  world_.advance(kHard - kSoft);
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
  world_.advance(1h);
  EXPECT_EQ(session->state(), SessionState::kLost) << "an answer that comes later is of no use";
}

TEST_F(SessionTest, AStoreThatFailsForGoodIsSaidToBeOutOfReach) {
  const auto session = open();
  disk_->crash();
  world_.advance(1h);
  EXPECT_EQ(session->state(), SessionState::kLost);
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
  EXPECT_THAT(error_text<SessionLost>([&] { session->check_alive(); }), HasSubstr("has crashed"));
}

TEST_F(SessionTest, AFullDiskIsOutlivedOnceThereIsSpace) {
  const auto session = open();
  fault({.bytes_max = 1});
  world_.advance(25s);
  EXPECT_EQ(session->state(), SessionState::kAtRisk);
  fault({});
  world_.advance(3s);
  EXPECT_EQ(session->state(), SessionState::kLive);
}

TEST_F(SessionTest, ALostAnswerIsFoundByReading) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto session = open(*store_, seed);
    const TimePoint opened = world_.clock.now();
    const Version first = session->version();
    fault({.seed = seed, .unknown_chance = 1});
    world_.clock.advance(10s);
    world_.executor.drain();
    fault({});
    const std::uint64_t commits = disk_->commit_count();
    if (row_of(*session)->version != first) {
      ++found;
      EXPECT_EQ(session->valid_until(), opened + kHard) << "not known yet";
      world_.advance(500ms);
      EXPECT_EQ(session->valid_until(), opened + 10s + kHard) << "from before that request";
      EXPECT_EQ(disk_->commit_count(), commits) << "nothing had to be written again";
    } else {
      world_.advance(500ms);
      EXPECT_EQ(disk_->commit_count(), commits + 1);
    }
    EXPECT_EQ(session->state(), SessionState::kLive);
    EXPECT_EQ(session->version(), row_of(*session)->version);
    world_.run(session->close());
  }
  EXPECT_GT(found, 10);
  EXPECT_LT(found, 40);
}

TEST_F(SessionTest, ALostAnswerToTheOpeningIsFoundByReading) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    fault({.seed = seed, .unknown_chance = 0.5});
    const auto session = open(*store_, seed);
    fault({});
    ASSERT_EQ(list().size(), 1U) << "seed " << seed;
    EXPECT_EQ(session->version(), row_of(*session)->version);
    world_.run(session->close());
  }
}

TEST_F(SessionTest, OneThatWasBuriedFindsOutAndIsFencedMeanwhile) {
  const auto session = open();
  Batch grave;
  detail::bury(grave, *row_of(*session));
  ASSERT_TRUE(world_.run(store_->commit(std::move(grave))).committed());
  const CommitOutcome outcome = world_.run(session->commit(Batch().put("a", "1")));
  ASSERT_NE(outcome.fenced(), nullptr);
  EXPECT_EQ(outcome.fenced()->key, session->key());
  EXPECT_FALSE(world_.run(store_->get("a")));
  const std::stop_token lost = session->lost_token();
  world_.advance(10s);
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(session->loss(), SessionLoss::kDeposed);
  EXPECT_FALSE(session->valid());
  EXPECT_THAT(error_text<SessionLost>([&] { session->check_alive(); }), HasSubstr("is gone"));
  EXPECT_EQ(list().size(), 0U) << "a renewal does not make the row again";
}

TEST_F(SessionTest, ACommitIsNotFencedByARenewal) {
  const auto session = open();
  const Version stale = session->version();
  put("b", "1");
  // As if a renewal had just arrived, and its answer had not.
  put(session->key(), row_of(*session)->value);
  const CommitOutcome by_hand =
      world_.run(store_->commit(Batch().guard(session->key(), stale).put("a", "0")));
  EXPECT_NE(by_hand.fenced(), nullptr);
  const CommitOutcome outcome = world_.run(session->commit(Batch().put("a", "1")));
  EXPECT_NE(outcome.committed(), nullptr);
  const CommitOutcome conflict =
      world_.run(session->commit(Batch().require_absent("b").put("a", "2")));
  EXPECT_NE(conflict.conflict(), nullptr);
  const CommitOutcome fenced = world_.run(session->commit(Batch().guard("b", 1).put("a", "2")));
  ASSERT_NE(fenced.fenced(), nullptr);
  EXPECT_EQ(fenced.fenced()->key, "b");
  EXPECT_EQ(world_.run(store_->get("a"))->value, "1");
}

TEST_F(SessionTest, ClosingErasesTheRowAtOnce) {
  const auto session = open();
  const std::stop_token lost = session->lost_token();
  world_.advance(25s);
  world_.run(session->close());
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(session->state(), SessionState::kLost);
  EXPECT_EQ(session->loss(), SessionLoss::kClosed);
  EXPECT_FALSE(session->valid());
  EXPECT_THAT(error_text<SessionLost>([&] { session->check_alive(); }), HasSubstr("was closed"));
  EXPECT_EQ(world_.clock.armed_count(), 0U) << "nothing is left running";
  EXPECT_EQ(world_.executor.task_count(), 0U);
  const std::uint64_t commits = disk_->commit_count();
  world_.run(session->close());
  EXPECT_EQ(disk_->commit_count(), commits);
}

TEST_F(SessionTest, AClosingThatFailedMayBeRepeated) {
  const auto session = open();
  fault({.busy_chance = 1});
  EXPECT_THROW(world_.run(session->close()), StoreBusy);
  EXPECT_EQ(session->state(), SessionState::kLost) << "from the call on";
  EXPECT_EQ(list().size(), 1U);
  fault({.unknown_chance = 0.5});
  world_.run(session->close());
  EXPECT_TRUE(list().empty());
}

TEST_F(SessionTest, ClosingALostOneErasesWhatIsLeftOfIt) {
  const auto session = open(far_);
  far_.broken_from = world_.clock.now();
  far_.broken_until = far_.broken_from + kHard;
  world_.advance(kHard);
  EXPECT_EQ(session->state(), SessionState::kLost);
  EXPECT_EQ(list().size(), 1U) << "a renewal that had hung came through";
  world_.run(session->close());
  EXPECT_TRUE(list().empty());
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
}

TEST_F(SessionTest, ItsEndWithoutClosingLeavesTheRowToExpire) {
  auto session = open();
  const std::stop_token lost = session->lost_token();
  session.reset();
  world_.executor.drain();
  EXPECT_TRUE(lost.stop_requested());
  EXPECT_EQ(world_.executor.task_count(), 0U);
  EXPECT_EQ(list().size(), 1U);
  world_.advance(kTtl);
  EXPECT_EQ(bury(), 1U);
}

TEST_F(SessionTest, CallbacksMayAskAnything) {
  const auto session = open();
  std::vector<SessionState> seen;
  const auto ask = [&] { seen.push_back(session->state()); };
  const std::stop_callback at_risk(session->at_risk_token(), ask);
  const std::stop_callback lost(session->lost_token(), ask);
  disk_->crash();
  world_.advance(1min);
  EXPECT_EQ(seen, (std::vector{SessionState::kAtRisk, SessionState::kLost}));
}

TEST_F(SessionTest, BadOptionsAreRefusedBeforeAnythingIsWritten) {
  const std::string long_name(257, 'x');
  for (const SessionOptions& options :
       {SessionOptions{.ttl = 0s}, SessionOptions{.ttl = -1s}, SessionOptions{.ttl = 24h + 1ns},
        SessionOptions{.name = long_name}}) {
    EXPECT_THROW(static_cast<void>(Session::open(*store_, options)), InvalidArgument);
  }
  far_.can.atomic = false;
  EXPECT_THROW(static_cast<void>(Session::open(far_)), Unsupported);
  EXPECT_EQ(disk_->commit_count(), 0U);
}

TEST_F(SessionTest, ARowThatCannotBeReadIsAnErrorAndNoDeadSession) {
  auto session = open();
  const std::string good = row_of(*session)->value;
  session.reset();
  world_.advance(1h);
  const std::string newer("\x08\x02");
  for (const std::string& bad : {std::string(), std::string("\xff\xff"), std::string("\x08\x01"),
                                 good.substr(0, good.size() / 2), newer}) {
    put("session/bad", bad);
    put("session/old", good);
    const std::optional<Entry> row = world_.run(store_->get("session/bad"));
    if (bad == newer) {
      EXPECT_THROW(static_cast<void>(detail::liveness(row, store_now())), NewerFormat);
      EXPECT_THROW(static_cast<void>(list()), NewerFormat);
      EXPECT_THROW(static_cast<void>(bury()), NewerFormat);
    } else {
      EXPECT_THROW(static_cast<void>(detail::liveness(row, store_now())), StoreCorrupt);
      EXPECT_THROW(static_cast<void>(list()), StoreCorrupt);
      EXPECT_THROW(static_cast<void>(bury()), StoreCorrupt);
    }
    EXPECT_EQ(world_.run(store_->get("session/bad"))->value, bad) << "it is kept";
    EXPECT_FALSE(world_.run(store_->get("session/old"))) << "the others are seen to";
  }
}

TEST_F(SessionTest, ItsOwnRowDamagedIsNotRenewedNorTakenForALoss) {
  const auto session = open();
  put(session->key(), "\xff\xff");
  world_.advance(15s);
  EXPECT_EQ(session->state(), SessionState::kLive);
  EXPECT_EQ(row_of(*session)->value, "\xff\xff");
  world_.advance(kHard);
  EXPECT_EQ(session->loss(), SessionLoss::kUnreachable);
  EXPECT_THAT(error_text<SessionLost>([&] { session->check_alive(); }), HasSubstr("damaged"));
}

TEST_F(SessionTest, ManySessionsAreListedOverPages) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::uint64_t i = 1; i <= 2'500; ++i) {
    sessions.push_back(open(*store_, i));
  }
  EXPECT_EQ(list().size(), 2'500U);
  sessions.clear();
  world_.advance(kTtl);
  EXPECT_EQ(bury(), 2'500U);
}

TEST(SessionThreads, ItHasThreadsOfItsOwnUnlessItIsGivenAnExecutor) {
  VirtualClock clock;
  const auto store = open_memory_store(std::make_shared<MemoryDisk>(clock));
  ThreadPool pool(1);
  for (int i = 0; i < 20; ++i) {
    const auto session = sync_wait(pool, Session::open(*store));
    for (int beat = 0; beat < 10; ++beat) {
      const Version last = session->version();
      while (clock.armed_count() < 2) {
        std::this_thread::yield();  // Until it waits, for its next renewal and its deadline.
      }
      clock.advance(10s);
      while (session->version() == last) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(session->state(), SessionState::kLive);
    if (i % 2 == 0) {
      sync_wait(pool, session->close());
    }
  }
}

}  // namespace
}  // namespace holdfast
