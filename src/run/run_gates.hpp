// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/gate.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/run_gate.hpp>
#include <holdfast/run_lock.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "bell.hpp"
#include "fetch_steps.hpp"
#include "gate/gate_ledger.hpp"
#include "gate/gate_rules.hpp"

namespace holdfast::detail {

class LeasedUse;

/// The row of a lock that a run holds: the run is its owner, and asked for it by an operation.
[[nodiscard]] std::string run_holder_key(std::string_view gate, std::string_view uid,
                                         std::uint64_t operation);
/// Runs as actors: see `GateRequest::actors`.
[[nodiscard]] std::string run_actor(std::string_view uid);

/// What a run learns when it is let in.
struct LockGrant {
  Version fence = 0;
  std::vector<std::uint64_t> slots;
};
/// As it stands in a journal.
[[nodiscard]] std::string grant_text(const LockGrant& grant);
[[nodiscard]] LockGrant read_grant(const boost::json::value& value);
/// The JSON that the text is, be it of a grant or not. `StoreCorrupt`: it is none.
[[nodiscard]] boost::json::value grant_value(std::string_view text);
/// The fence in what `grant_text` has made.
[[nodiscard]] Version fence_in(std::string_view grant_text);
/// As the row of the holder says.
[[nodiscard]] LockGrant grant_in(const Entry& holder);

/// The gates that the runs of an engine use, and that others may use as well. A run changes several
/// in one commit with all else that it does.
class RunGates {
 public:
  explicit RunGates(Store& store) noexcept : store_(store) {}
  RunGates(const RunGates&) = delete;
  RunGates& operator=(const RunGates&) = delete;

  /// A lock that is asked for.
  struct Ask {
    std::uint64_t operation = 0;
    GateDefinition definition;
    SharedRequest request;
    bool ends_at_once = false;  ///< If it is held, it is let go of by the same change.
    bool as_stored = false;     ///< See `LockTerms`.
    DeadlockVictim victim = DeadlockVictim::kRequester;
    /// What came of it: a failure, or else `asked`, and, if it is held, its slots.
    std::exception_ptr error{};
    Asked asked{};
    std::vector<std::uint64_t> slots{};
    /// To those who give way to it, so that there is no circle.
    std::vector<GateRequest::Notice> victims{};
  };
  /// A lock that is let go of, be it held or waited for.
  struct Ending {
    std::string holder_key;
    std::string waiter_key;  ///< Empty: it does not wait.
    record::GateGrant::End how = record::GateGrant::RELEASED;
    /// Of the hold that is ended: the change is on condition that there is one with this fence.
    /// Zero: there was none.
    Version fence = 0;
  };
  /// A plain operation: acquire, release or withdraw.
  struct Use {
    std::uint64_t operation = 0;
    GateUse terms;
    /// What came of it: a failure, or else `asked`, with the fence and the slots of one that is
    /// held, the fence zero if it is so by this commit; of a release, whether there was something
    /// to.
    std::exception_ptr error{};
    Asked asked{};
    Version fence = 0;
    std::vector<std::uint64_t> slots{};
    bool was_there = false;
  };
  /// What is done at one gate, in this order.
  struct Deeds {
    std::vector<Ending> endings;
    std::vector<Use> uses;  ///< One at most.
    std::vector<Ask> asks;
  };
  using DeedsByGate = std::map<std::string, Deeds>;

 private:
  struct Room {
    Room(Store& store, const std::string& gate) : ledger(store, GateKeys(gate), nullptr) {}
    Mutex turn;
    GateLedger ledger;
    bool was_used_plainly = false;  // By a time of others: what is known of leases is not ours.
  };

 public:
  /// As long as it lives, nobody else of this engine changes these gates.
  class Change {
   public:
    Change() = default;
    /// What is to be committed. Once.
    [[nodiscard]] Batch take_batch();
    /// Whether a conflict at this key is about one of these gates. After `take_batch`.
    [[nodiscard]] bool is_founded_on(std::string_view key) const;
    /// As they will be. Null: this changes nothing at that gate.
    [[nodiscard]] const GateRows* rows_at(std::string_view gate) const;
    /// One who was let in, or gives way, and has to be told; the row for that is in the batch.
    struct Told {
      SharedRequest who;                        ///< Null: there is nothing but the word to it.
      std::optional<LockGrant> grant;           ///< Nothing: it gives way.
      std::optional<GateRequest::Notice> word;  ///< In the place of its notice.
      [[nodiscard]] const GateRequest::Notice& notice() const {
        return word ? *word : *who->notice;
      }
    };
    [[nodiscard]] std::vector<Told> committed(Version version);
    /// One who waits where some were let in, and how far it is to be fetched ahead.
    struct InLine {
      const GateRequest* request;
      FetchStep step;
    };
    /// After that: the first ones of long queues.
    [[nodiscard]] std::vector<InLine> next_in_line() const;

   private:
    friend class RunGates;
    [[nodiscard]] bool is_head(std::string_view key) const;
    struct Part {
      std::shared_ptr<Room> room;
      Hold turn;
      GateLedger::Prepared prepared;
      std::vector<GateRequest::Notice> victims;
    };
    /// What was prepared for `part`.
    void take(Part& part, Deeds& deeds);
    RunGates* gates_ = nullptr;
    std::vector<Part> parts_;
    Batch batch_;
    std::vector<std::string> founded_on_;  // Keys that the batch has conditions on, but for heads.
  };
  /// Fills in what comes of the asks. What cannot be read is thrown; what is wrong with an ask is
  /// its failure.
  [[nodiscard]] Task<Change> prepare(DeedsByGate& deeds);
  /// The same at once, by what is known of the gates. False: something has to be read, or waited
  /// for, so `prepare` is to be asked, when `change` is gone.
  [[nodiscard]] bool prepare_known(DeedsByGate& deeds, StoreTime now, Change& change);

  /// Sees to gates at which runs wait, whoever they belong to: a holder may be dead, and the rate
  /// may allow the next one. When to do so again; nothing: when a row below `kUnattendedPrefix`
  /// changes, as also before that time.
  [[nodiscard]] Task<std::optional<StoreTime>> attend();
  /// The same, as far as is known.
  [[nodiscard]] std::optional<StoreTime> next_look() const;
  /// Rung when that has become earlier than was known.
  [[nodiscard]] Bell& earlier() noexcept { return earlier_; }

 private:
  [[nodiscard]] std::shared_ptr<Room> room_of(const std::string& gate);
  [[nodiscard]] static bool may_close_a_circle(const Ask& ask) {
    return ask.request->may_hold_others;
  }
  class Doing;
  /// `fault_of` says at whose wait it stopped, if it throws.
  [[nodiscard]] Task<void> check_waits(GateRows& rows, Deeds& deeds, const DeedsByGate& all,
                                       std::exception_ptr*& fault_of);
  [[nodiscard]] Task<void> find_waiter(LeasedUse& leased, std::string& waiter_key);
  [[nodiscard]] static Served use_plainly(GateRows& rows, KnownLeases& leases, LeasedUse& leased,
                                          Use& use);
  [[nodiscard]] Task<std::optional<StoreTime>> look_at(std::string gate, StoreTime now);
  void note(const std::string& gate, Version head, std::optional<StoreTime> look_again_at);

  struct Seen {
    Version head = 0;
    std::optional<StoreTime> look_again_at;
  };

  Store& store_;
  Bell earlier_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Room>> rooms_;
  std::map<std::string, Seen> seen_;
};

}  // namespace holdfast::detail
