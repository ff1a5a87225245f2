// SPDX-License-Identifier: Apache-2.0
// Transactions of workflows, on real SQLite.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>
#include <holdfast/sqlite_transaction.hpp>

#include "base/temp_folder.hpp"
#include "store/watch_list.hpp"
#include "store_sqlite/sql_by_hand.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using testing::ask_sql;
using testing::run_sql;

constexpr Retry kAtOnce{.attempts_max = 5, .pause_first = 0s, .pause_max = 0s};

/// What the workflows of a test do, and how often.
std::atomic<int> calls = 0;
std::function<int(Transaction&, int call)> in_transaction;

constexpr const char* kMove =
    "UPDATE account SET amount = amount - 10 WHERE name = 'a';"
    "UPDATE account SET amount = amount + 10 WHERE name = 'b'";

int move(Transaction& transaction, int call) {
  run_sql(sqlite_connection(transaction), kMove);
  return call;
}

Task<int> move_once(Context& ctx) {
  auto moving = ctx.transact(
      "move", [](Transaction& transaction) { return in_transaction(transaction, ++calls); },
      {.retry = kAtOnce});
  const int result = co_await moving;
  co_return result;
}
const auto kMoveOnce = workflow("move_once", move_once);

Task<int> move_and_wait(Context& ctx) {
  auto moving = ctx.transact(
      "move", [](Transaction& transaction) { return in_transaction(transaction, ++calls); });
  const int result = co_await moving;
  auto go = ctx.signal<int>("go");
  const int bonus = co_await go;
  co_return result + bonus;
}
const auto kMoveAndWait = workflow("move_and_wait", move_and_wait);

/// How a failure looks to the workflow: "code, attempts, text".
Task<std::string> fail_to_move(Context& ctx) {
  auto moving = ctx.transact(
      "move", [](Transaction& transaction) { return in_transaction(transaction, ++calls); },
      {.retry = kAtOnce});
  std::string text;
  try {
    static_cast<void>(co_await moving);
  } catch (const StepFailed& failed) {
    text = std::to_string(failed.original_code()) + " " + failed.type() + ": " + failed.what();
  }
  co_return text;
}
const auto kFailToMove = workflow("fail_to_move", fail_to_move);

Task<std::vector<int>> all_at_once(Context& ctx, int count) {
  std::vector<Durable<int>> all;
  all.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    all.push_back(ctx.transact("move " + std::to_string(i), [](Transaction& transaction) {
      return in_transaction(transaction, ++calls);
    }));
  }
  auto cell = ctx.global().cell<int>("between");
  auto change = cell.update([](int& value) { ++value; });
  co_await change;
  const std::vector<int> results = co_await ctx.all(std::move(all));
  co_return results;
}
const auto kAllAtOnce = workflow("all_at_once", all_at_once);

Task<std::string> with_options(Context& ctx, bool beats) {
  std::string text;
  try {
    StepOptions options;
    options.heartbeat_timeout = beats ? Duration(1s) : Duration{};
    options.side_effect_free = !beats;
    auto moving = ctx.transact("move", [](Transaction&) {}, options);
    co_await moving;
  } catch (const InvalidArgument& error) {
    text = error.what();
  }
  co_return text;
}
const auto kWithOptions = workflow("with_options", with_options);

Task<std::string> too_late(Context& ctx) {
  auto moving = ctx.transact(
      "move", [](Transaction& transaction) { return in_transaction(transaction, ++calls); },
      {.retry = Retry::never(), .attempt_timeout = 10s});
  std::string text;
  try {
    static_cast<void>(co_await moving);
  } catch (const StepFailed& failed) {
    text = failed.what();
  }
  co_return text;
}
const auto kTooLate = workflow("too_late", too_late);

Task<std::string> move_under_lock(Context& ctx) {
  const RunLock lock = co_await ctx.lock("accounts");
  auto moving = ctx.transact("move", [&lock](Transaction& transaction) {
    lock.guard(transaction);
    return in_transaction(transaction, ++calls);
  });
  std::string text = "moved";
  try {
    static_cast<void>(co_await moving);
  } catch (const StepFailed& failed) {
    text = failed.type();
  }
  co_return text;
}
const auto kMoveUnderLock = workflow("move_under_lock", move_under_lock);

Task<std::string> with_limit(Context& ctx) {
  const Limit limit("vendor", 3);
  std::string text;
  try {
    auto moving = ctx.transact("move", [](Transaction&) {}, {.limit = &limit});
    co_await moving;
  } catch (const InvalidArgument& error) {
    text = error.what();
  }
  co_return text;
}
const auto kWithLimit = workflow("with_limit", with_limit);

/// A store that does something else before a transaction begins.
class PausingStore final : public Store {
 public:
  explicit PausingStore(Store& store) : store_(store) {}
  PausingStore(const PausingStore&) = delete;
  PausingStore& operator=(const PausingStore&) = delete;
  ~PausingStore() override { watches_->end(std::make_exception_ptr(Closed("the store"))); }

  std::function<void()> before_transaction;

  [[nodiscard]] const std::string& url() const noexcept override { return store_.url(); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override {
    return store_.capabilities();
  }
  [[nodiscard]] Clock& clock() noexcept override { return store_.clock(); }
  [[nodiscard]] Task<StoreTime> time() override { return store_.time(); }
  [[nodiscard]] Task<CheckReport> check() override { return store_.check(); }
  [[nodiscard]] Task<StoreStats> stats() override { return store_.stats(); }
  [[nodiscard]] Task<BackupReport> backup(std::filesystem::path target) override {
    return store_.backup(std::move(target));
  }

 private:
  Task<std::optional<Entry>> do_get(std::string key, Read read) override {
    return store_.get(key, read);
  }
  Task<Page> do_scan(Range range, Read read) override {
    return store_.scan(range.prefix, {.after = range.after, .limit = range.limit, .read = read});
  }
  Task<CommitOutcome> do_commit(Batch batch, Wait wait) override {
    return wait == Wait::kForDisk ? store_.commit(std::move(batch))
                                  : store_.apply(std::move(batch));
  }
  Task<CommitOutcome> do_transact(TransactionWork work) override {
    if (const auto pause = std::exchange(before_transaction, nullptr)) {
      pause();
    }
    return store_.transact(std::move(work));
  }
  Task<void> do_until_durable(Version version) override { return store_.until_durable(version); }
  std::shared_ptr<detail::WatchedPrefix> do_watch(std::string prefix) override {
    return watches_->add(std::move(prefix));
  }

  Store& store_;
  std::shared_ptr<detail::WatchList> watches_ = std::make_shared<detail::WatchList>();
};

std::mutex warnings_mutex;
std::string warnings;

void note_warning(const std::string& text) {
  const std::lock_guard lock(warnings_mutex);
  warnings += text;
}

void add_workflows(Engine& engine) {
  engine.add(kMoveOnce);
  engine.add(kMoveAndWait);
  engine.add(kFailToMove);
  engine.add(kAllAtOnce);
  engine.add(kWithOptions);
  engine.add(kTooLate);
  engine.add(kMoveUnderLock);
  engine.add(kWithLimit);
}

struct Worker {
  explicit Worker(Store& store, bool knows_workflows = true) {
    session = sync_wait(pool, Session::open(store));
    engine.emplace(*session, EngineOptions{.executor = &pool, .warn = note_warning});
    if (knows_workflows) {
      add_workflows(*engine);
    }
    sync_wait(pool, engine->begin());
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() = default;

  /// As a process ends well.
  void stop() {
    sync_wait(pool, engine->stop());
    engine.reset();
    sync_wait(pool, session->close());
  }
  template <typename Out>
  Out result_of(const Workflow<void, Out>& workflow) {
    auto run = sync_wait(pool, engine->start(workflow));
    return sync_wait(pool, run.result());
  }

  std::unique_ptr<Session> session;
  ThreadPool pool{2};  // Of an engine that was not stopped, it goes before the session.
  std::optional<Engine> engine;
};

class TransactTest : public ::testing::Test {
 protected:
  TransactTest() {
    calls = 0;
    in_transaction = move;
    make_accounts();
  }
  ~TransactTest() override { in_transaction = nullptr; }

  void make_accounts() {
    static_cast<void>(sql([](sqlite3* db) {
      run_sql(db,
              "CREATE TABLE account(name TEXT PRIMARY KEY, amount INTEGER NOT NULL);"
              "INSERT INTO account VALUES('a', 100), ('b', 0)");
      return 0;
    }));
  }
  std::int64_t sql(const std::function<std::int64_t(sqlite3*)>& work) {
    std::int64_t answer = 0;
    static_cast<void>(sync_wait(pool_, store_->transact([&](Transaction& transaction) {
      answer = work(sqlite_connection(transaction));
      return Batch();
    })));
    return answer;
  }
  std::int64_t moved() {
    return sql([](sqlite3* db) {
      EXPECT_EQ(ask_sql(db, "SELECT sum(amount) FROM account"), 100);
      return ask_sql(db, "SELECT amount FROM account WHERE name = 'b'");
    });
  }
  /// Nothing of it may be left.
  std::string failure_with(std::function<int(Transaction&, int)> work) {
    in_transaction = std::move(work);
    Worker worker(*store_);
    std::string text = worker.result_of(kFailToMove);
    EXPECT_EQ(moved(), 0);
    return text;
  }

  testing::TempFolder folder_;
  ThreadPool pool_{1};
  std::unique_ptr<Store> store_ = open_sqlite_store(folder_ / "runs.db");
};

TEST_F(TransactTest, ItHappensOnceAndItsResultIsKept) {
  std::string id;
  {
    Worker first(*store_);
    auto run = sync_wait(first.pool, first.engine->start(kMoveAndWait));
    id = run.id();
    first.stop();
  }
  EXPECT_EQ(moved(), 10);
  Worker second(*store_);
  sync_wait(second.pool, second.engine->signal(id, "go", 100));
  EXPECT_EQ(sync_wait(second.pool, second.engine->handle(kMoveAndWait, id).result()), 101);
  EXPECT_EQ(moved(), 10);
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, WhatThrowsIsTakenBackAndTriedAgain) {
  in_transaction = [](Transaction& transaction, int call) {
    const int result = move(transaction, call);
    if (call < 3) {
      throw std::runtime_error("not yet");
    }
    return result;
  };
  Worker worker(*store_);
  EXPECT_EQ(worker.result_of(kMoveOnce), 3);
  EXPECT_EQ(moved(), 10);
  EXPECT_EQ(calls, 3);
}

TEST_F(TransactTest, WhatAlwaysThrowsFailsWhenItsAttemptsAreSpent) {
  const std::string text = failure_with([](Transaction& transaction, int call) {
    move(transaction, call);
    throw std::out_of_range("never");
    return 0;
  });
  EXPECT_EQ(text, "0 std::out_of_range: never");
  EXPECT_EQ(calls, 5);
}

TEST_F(TransactTest, APermanentFailureIsNotTriedAgain) {
  const std::string text = failure_with([](Transaction& transaction, int call) {
    move(transaction, call);
    throw PermanentFailure("no");
    return 0;
  });
  EXPECT_EQ(text, "407 holdfast::PermanentFailure: no");
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, SqlThatIsRefusedFailsAtOnceWithItsReason) {
  const std::string text = failure_with([](Transaction& transaction, int call) {
    move(transaction, call);
    run_sql(sqlite_connection(transaction), "COMMIT");
    return 0;
  });
  EXPECT_TRUE(text.starts_with("118 holdfast::TransactionRefused: ")) << text;
  EXPECT_NE(text.find("COMMIT: the transaction begins and ends with the function"),
            std::string::npos)
      << text;
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, WhatRolledItselfBackFailsAtOnce) {
  const std::string text = failure_with([](Transaction& transaction, int call) {
    move(transaction, call);
    sqlite3_exec(sqlite_connection(transaction), "INSERT OR ROLLBACK INTO account VALUES('a', 1)",
                 nullptr, nullptr, nullptr);
    return 0;
  });
  EXPECT_TRUE(text.starts_with("118 ")) << text;
  EXPECT_NE(text.find("rolled back before its end"), std::string::npos) << text;
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, AHoldGuardsIt) {
  Worker other(*store_);
  Gates gates(*other.session);
  DurableMutex mutex = gates.mutex("stock");
  DurableHold old = sync_wait(other.pool, mutex.acquire());
  const auto guarded = [&old](Transaction& transaction, int call) {
    old.guard(transaction);
    return move(transaction, call);
  };
  in_transaction = guarded;
  EXPECT_EQ(other.result_of(kMoveOnce), 1);
  EXPECT_EQ(moved(), 10);
}

TEST_F(TransactTest, AFenceThatIsStaleFailsItAtOnce) {
  const Version version =
      sync_wait(pool_, store_->commit(std::move(Batch().put("hold", "me")))).committed()->version;
  static_cast<void>(sync_wait(pool_, store_->commit(std::move(Batch().put("hold", "other")))));
  const std::string text = failure_with([version](Transaction& transaction, int call) {
    transaction.guard("hold", version);
    return move(transaction, call);
  });
  EXPECT_TRUE(text.starts_with("408 holdfast::StaleFence: transaction 'move': fence " +
                               std::to_string(version) + " of hold is stale"))
      << text;
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, OneOfARunWhoseLockWasTakenAwayIsRefused) {
  PausingStore pausing(*store_);
  Worker worker(pausing);
  EXPECT_EQ(worker.result_of(kMoveUnderLock), "moved");
  EXPECT_EQ(moved(), 10);
  pausing.before_transaction = [&] {
    std::jthread([&] {  // Not in the task of the run.
      const auto gate = sync_wait(pool_, inspect_gate(*store_, "accounts"));
      GateControl control(*store_);
      const std::uint64_t fence = gate->holders.front().fence;
      EXPECT_TRUE(sync_wait(pool_, control.force_release("accounts", fence, {.by = "ops"})));
      static_cast<void>(sync_wait(pool_, worker.engine->sweep()));  // Nobody watches this store.
    })
        .join();
  };
  EXPECT_EQ(worker.result_of(kMoveUnderLock), "holdfast::StaleFence");
  EXPECT_EQ(moved(), 10) << "nothing of it happened";
}

TEST_F(TransactTest, ALimitIsRefused) {
  Worker worker(*store_);
  EXPECT_TRUE(worker.result_of(kWithLimit).starts_with("transaction 'move': limit is 'vendor'"));
}

TEST_F(TransactTest, AStoreWithoutSqlFailsItAtOnceAndSaysWhichHasIt) {
  const auto memory = open_memory_store();
  Worker worker(*memory);
  const std::string text = worker.result_of(kFailToMove);
  EXPECT_TRUE(text.starts_with("104 holdfast::Unsupported: ")) << text;
  EXPECT_NE(text.find("memory:"), std::string::npos) << text;
  EXPECT_NE(text.find("sqlite:"), std::string::npos) << text;
  EXPECT_EQ(calls, 0);
}

TEST_F(TransactTest, SeveralAreMadeOneAfterTheOther) {
  in_transaction = [](Transaction& transaction, int call) {
    static_cast<void>(move(transaction, call));
    return static_cast<int>(
        ask_sql(sqlite_connection(transaction), "SELECT amount FROM account WHERE name = 'b'"));
  };
  Worker worker(*store_);
  auto run = sync_wait(worker.pool, worker.engine->start(kAllAtOnce, 5));
  EXPECT_EQ(sync_wait(worker.pool, run.result()), (std::vector<int>{10, 20, 30, 40, 50}));
  EXPECT_EQ(moved(), 50);
}

TEST_F(TransactTest, OptionsThatSayNothingAreRefused) {
  Worker worker(*store_);
  auto beats = sync_wait(worker.pool, worker.engine->start(kWithOptions, true));
  EXPECT_TRUE(sync_wait(worker.pool, beats.result())
                  .starts_with("transaction 'move': heartbeat_timeout is 1 s"));
  auto free = sync_wait(worker.pool, worker.engine->start(kWithOptions, false));
  EXPECT_TRUE(sync_wait(worker.pool, free.result())
                  .starts_with("transaction 'move': side_effect_free is true"));
}

TEST_F(TransactTest, AResultThatIsTooLongTakesItBack) {
  const std::string text = failure_with([](Transaction& transaction, int call) -> int {
    move(transaction, call);
    throw BadPayload("as of a result that is too long");
  });
  EXPECT_TRUE(text.starts_with("113 ")) << text;
  EXPECT_EQ(calls, 1);
}

TEST_F(TransactTest, OneThatTookTooLongIsTakenBackWhenItsFunctionReturns) {
  VirtualClock clock;
  store_ = open_sqlite_store(folder_ / "late.db", {.clock = &clock});
  make_accounts();
  ManualExecutor executor(clock);
  const auto finish = [&executor](auto task) {
    auto running = spawn(executor, std::move(task));
    while (!running.ended()) {
      executor.drain();
      std::this_thread::yield();
    }
    return running.get();
  };
  const auto session = finish(Session::open(*store_, {.executor = &executor}));
  Engine engine(*session, {.executor = &executor, .watchdog_time = 0s, .warn = note_warning});
  add_workflows(engine);
  finish(engine.begin());
  // The function runs in the store's thread; all else in this one.
  std::atomic<bool> has_begun = false;
  std::atomic<bool> is_late = false;
  in_transaction = [&](Transaction& transaction, int call) {
    const int result = move(transaction, call);
    has_begun = true;
    is_late.wait(false);
    return result;
  };
  auto run = finish(engine.start(kTooLate));
  while (!has_begun) {
    executor.drain();
    std::this_thread::yield();
  }
  clock.advance(11s);
  executor.drain();
  is_late = true;
  is_late.notify_all();
  EXPECT_NE(finish(run.result()).find("took too long"), std::string::npos);
  EXPECT_EQ(moved(), 0);
  EXPECT_EQ(calls, 1);
  finish(engine.stop());
}

TEST_F(TransactTest, AProcessThatWasDeposedChangesNothing) {
  PausingStore paused(*store_);
  const auto other_store = open_sqlite_store(folder_ / "runs.db");
  Worker old(paused);
  std::unique_ptr<Worker> heir;
  std::promise<int> result;
  paused.before_transaction = [&] {
    // As if this process had been stopped here until its session was over.
    std::thread([&] {
      ThreadPool pool(1);
      static_cast<void>(
          sync_wait(pool, other_store->commit(std::move(Batch().erase(old.session->key())))));
      heir = std::make_unique<Worker>(*other_store);
      result.set_value(sync_wait(heir->pool, heir->engine->handle(kMoveOnce, "the-run").result()));
    }).join();
  };
  static_cast<void>(sync_wait(old.pool, old.engine->start(kMoveOnce, {.id = "the-run"})));
  EXPECT_EQ(result.get_future().get(), 1);
  sync_wait(old.pool, old.engine->stop());
  EXPECT_EQ(calls, 2) << "the one that was deposed did not come to its function";
  EXPECT_EQ(moved(), 10);
  const std::lock_guard lock(warnings_mutex);
  EXPECT_NE(warnings.find("another process has taken it over"), std::string::npos) << warnings;
}

/// The heir writes nothing into the journal, so nothing but the epoch stands in the way.
TEST_F(TransactTest, TheEpochAloneKeepsADeposedProcessFromChangingAnything) {
  PausingStore paused(*store_);
  const auto other_store = open_sqlite_store(folder_ / "runs.db");
  Worker old(paused);
  std::unique_ptr<Worker> heir;
  paused.before_transaction = [&] {
    std::thread([&] {
      ThreadPool pool(1);
      static_cast<void>(
          sync_wait(pool, other_store->commit(std::move(Batch().erase(old.session->key())))));
      heir = std::make_unique<Worker>(*other_store, false);
    }).join();
  };
  static_cast<void>(sync_wait(old.pool, old.engine->start(kMoveOnce, {.id = "the-run"})));
  sync_wait(old.pool, old.engine->stop());
  ASSERT_NE(heir, nullptr);
  EXPECT_EQ(calls, 1) << "the one that was deposed did not come to its function";
  EXPECT_EQ(moved(), 0);
  heir->stop();
  Worker next(*other_store);
  EXPECT_EQ(sync_wait(next.pool, next.engine->handle(kMoveOnce, "the-run").result()), 2);
  EXPECT_EQ(moved(), 10);
}

}  // namespace
}  // namespace holdfast
