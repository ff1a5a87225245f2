// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/gates.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/spawn.hpp>

#include "actors.hpp"
#include "arrival.hpp"
#include "coro/background_tasks.hpp"
#include "gate_ledger.hpp"

namespace holdfast::detail {

/// One gate as one session uses it: its tasks come to it one after the other, so that they never
/// spend a conflict on each other, and wait in it for what other processes do.
class GateRoom : public std::enable_shared_from_this<GateRoom> {
 public:
  GateRoom(Session& session, Executor& executor, std::shared_ptr<HoldCounts> hold_counts,
           GateDefinition definition, std::string_view name);
  GateRoom(const GateRoom&) = delete;
  GateRoom& operator=(const GateRoom&) = delete;

  struct Wish {
    AcquireOptions options;
    std::string holder;
    std::string reason;
    std::string actor;
    std::vector<std::string> needed_by;
    bool shared = false;
  };
  /// `TimedOut` if it was refused for having to wait, which only a `queue_max` of zero leads to.
  [[nodiscard]] static Task<DurableHold> acquire(const std::shared_ptr<GateRoom>& room, Wish wish);
  /// Nothing in that case.
  [[nodiscard]] static Task<std::optional<DurableHold>> try_acquire(
      const std::shared_ptr<GateRoom>& room, Wish wish);
  [[nodiscard]] static Task<bool> release(std::shared_ptr<GateRoom> room, std::string holder_key,
                                          Version fence);
  void release_in_background(std::string holder_key, Version fence);
  /// The hold of `actor` is over.
  void forget_hold_of(std::uint64_t actor) noexcept { hold_counts_->remove(actor); }

  [[nodiscard]] const std::string& name() const noexcept { return keys().name(); }
  [[nodiscard]] const GateDefinition& definition() const noexcept { return definition_; }
  [[nodiscard]] Session& session() const noexcept { return session_; }
  [[nodiscard]] LeasedGate leased() const { return {store_, name(), definition_}; }

  /// Blocks until what was left or let go of in the background is so in the store, too. The
  /// executor has threads of its own.
  void wait_for_duties() const noexcept { duties_.wait(); }
  /// Ends what it does in the background; whoever waits is `Closed`.
  void close() { background_.close(); }

 private:
  [[nodiscard]] const GateKeys& keys() const noexcept { return ledger_.keys(); }

  using Plan = GateLedger::Plan;
  struct Changed : GateLedger::Changed {
    std::uint64_t freed = 0;  ///< By holds of this session that it ended.
  };
  /// A hold that was let go of, and is not over in the store yet.
  struct Ending {
    std::string holder_key;
    Version fence = 0;
    Duties::Duty counted;
  };
  class EndingsAfterTurn;
  class TakenEndings;
  class Withdrawal;
  struct Entered;
  // By the numbers of their requests. They go in their order mostly, so that what is looked at for
  // one is in the processor's caches for the next.
  using Waiting = std::map<std::uint64_t, std::shared_ptr<Arrival>>;

  /// Asks, and comes back held, refused or as one who waits. All that it takes to ask is gone then:
  /// many may wait.
  [[nodiscard]] Task<Entered> enter(Wish wish);
  /// `Result` is a hold, or one or nothing.
  template <class Result>
  [[nodiscard]] static Task<Result> stay(std::shared_ptr<GateRoom> room, Task<Entered> entering);
  /// The key of a hold of this session, which may be gone by now.
  [[nodiscard]] std::string own_holder(std::uint64_t request) const;
  [[nodiscard]] Waiting::iterator find_waiting(std::string_view request_id);

  /// With the turn: what `plan` makes of the rows, when the holds were ended that were let go of.
  [[nodiscard]] Task<Changed> change(const Plan& plan);
  [[nodiscard]] Task<Changed> change(const Plan& plan, GateLedger::Terms terms);
  /// Whether all who were let in, and `weight` more, have only what others of this session had.
  [[nodiscard]] bool is_handed_over(const Changed& changed, std::uint64_t weight) const noexcept;
  /// With the turn: tells those of this session who were let in.
  void welcome(const Changed& changed);
  void plan_to_look_at(StoreTime at);

  [[nodiscard]] GateRequest request_for(const Wish& wish,
                                        std::span<const std::uint64_t> actors) const;
  [[nodiscard]] Task<void> check_wait(GateRows& rows, const Asked& asked,
                                      const GateRequest& request);

  // In the background.
  [[nodiscard]] Task<void> withdraw(std::uint64_t request, std::string waiter_key);
  [[nodiscard]] Task<void> watch_for_grants();
  [[nodiscard]] Task<void> look_for_grants_of_others();
  [[nodiscard]] Task<void> look_for_grants();
  [[nodiscard]] Task<void> tell_all_who_were_let_in(std::optional<Entry> head);
  [[nodiscard]] Task<void> sweep();
  [[nodiscard]] Task<void> look_at(StoreTime at);
  [[nodiscard]] Task<void> serve_once();
  [[nodiscard]] Task<void> look_for_dropped();
  [[nodiscard]] Task<void> fail_all(std::exception_ptr error);
  static Task<void> quietly(std::shared_ptr<GateRoom> room, Task<void> task);
  void attend();
  void run_in_background(Task<void> task);
  /// For what others wait for.
  void run_as_duty(std::function<Task<void>()> duty);
  static Task<void> insist(Duties::Duty counted, std::function<Task<void>()> duty);
  [[nodiscard]] static Task<bool> unless_busy(Task<void> task);
  [[nodiscard]] Task<bool> unless_lost(Version version);
  void see_to_endings();
  [[nodiscard]] Task<void> end_until_none_is_left();
  [[nodiscard]] Task<void> end_what_was_let_go();
  void watch_over(Version version, std::vector<Ending> endings);
  [[nodiscard]] Task<void> see_that_they_last();

  Session& session_;
  Store& store_;
  const std::shared_ptr<HoldCounts> hold_counts_;
  const GateDefinition definition_;

  Mutex turn_;
  // With the turn.
  GateLedger ledger_;
  Waiting waiting_;
  std::optional<StoreTime> next_look_at_;
  std::uint64_t next_request_ = 0;
  // Of the gate's head: all who were let in up to it were told, or are being told by whoever has
  // the turn. Read without it, too.
  std::atomic<Version> told_up_to_ = 0;
  bool others_came_ = false;  // Since those were looked for who were dropped. With the turn.

  const std::string own_holders_;  // Keys of the holds of this session begin so.
  std::atomic<bool> attended_ = false;
  BackgroundTasks background_;
  Duties duties_;

  // Whoever has the turn ends them on the way: to wait for it only to let go would cost the next
  // one in line a change of threads.
  std::mutex endings_mutex_;
  std::vector<Ending> endings_;
  bool ending_ = false;  // A task of its own does it.
  struct Ended {
    Version version = 0;
    std::vector<Ending> endings;
  };
  std::vector<Ended> not_durable_;
  bool watched_over_ = false;
};

/// Made before the turn is asked for, so that it goes after that was given back, or after it was
/// not waited for any more: whoever let go of a hold meanwhile has left it to that one.
class GateRoom::EndingsAfterTurn {
 public:
  explicit EndingsAfterTurn(GateRoom& room) noexcept : room_(room) {}
  EndingsAfterTurn(const EndingsAfterTurn&) = delete;
  EndingsAfterTurn& operator=(const EndingsAfterTurn&) = delete;
  ~EndingsAfterTurn() { room_.see_to_endings(); }

 private:
  GateRoom& room_;
};

}  // namespace holdfast::detail
