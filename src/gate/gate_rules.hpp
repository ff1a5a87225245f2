// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/gate.hpp>
#include <holdfast/store.hpp>

#include "gate_rows.hpp"
#include "session_rules.hpp"

namespace holdfast::detail {

/// What is known of the rows that holds and waits hang on. A rule that has to know more says so,
/// and is asked again once that was read.
class KnownLeases {
 public:
  struct Lease {
    Liveness liveness = Liveness::kGone;
    Version version = 0;
    StoreTime expires_at{};
    /// Of the session that asks: as long as it acts, it is alive.
    bool own = false;
  };

  void learn(std::string key, const Lease& lease) {
    leases_.insert_or_assign(std::move(key), lease);
  }
  void forget() noexcept { leases_.clear(); }
  /// What was alive and may not be any more has to be read again.
  void forget_expired(StoreTime now);
  /// Null: it is noted as missing.
  [[nodiscard]] const Lease* find(const std::string& key);
  [[nodiscard]] std::vector<std::string> take_missing() { return std::exchange(missing_, {}); }

 private:
  std::map<std::string, Lease> leases_;
  std::vector<std::string> missing_;
};

/// One who wants in.
struct GateRequest {
  /// A row that is put when something happens to it.
  struct Notice {
    std::string key;
    std::string value;
    /// If its hold is ended by force, this is put behind the value, and `kLostMark` behind the key.
    /// Empty: then no row is put.
    std::string lost_suffix{};
  };

  std::string holder;
  std::string owner;       ///< Of the hold's row: the session, or nobody.
  std::string request_id;  ///< Unique to the owner: asked again with the same, it is the same.
  std::string lease_key;   ///< Empty: it hangs on nothing, and whoever asks sees to its end.
  /// Who cannot go on while this waits, itself first; none: unknown.
  std::vector<std::string> actors;
  bool may_hold_others = false;  ///< One of them: only then can there be a deadlock.
  std::uint64_t weight = 1;
  bool shared = false;
  int priority = 0;
  StoreTime deadline{};  ///< Zero: none.
  std::string reason;
  /// How many may wait, this one included, if it cannot be let in at once. 0: then it is refused.
  std::uint64_t queue_max = static_cast<std::uint64_t>(-1);
  /// When it is let in after it had to wait. With it, the gate has a row below `kUnattendedPrefix`
  /// while it waits.
  std::optional<Notice> notice{};
  /// A random number: it gets any of the slots that are free. Nothing: the lowest ones.
  std::optional<std::uint64_t> slot_seed{};
};

/// A waiter that was let in by whoever made room for it.
struct Admitted {
  std::string holder_key;
  std::string lease_key;
  std::string request_id;
  std::uint64_t weight = 1;
  std::optional<GateRequest::Notice> notice{};  ///< That was put.
};

/// What serving a gate came to. Incomplete as long as leases are missing, or waiters: then nothing
/// of it counts.
struct Served {
  std::vector<Admitted> admitted;
  /// When it may have to be done again without anybody's doing: a lease may have run out, or the
  /// rate may allow the next one.
  std::optional<StoreTime> look_again_at;
  bool needs_more_waiters = false;
};

[[nodiscard]] inline StoreTime store_time(std::int64_t ns) noexcept {
  return StoreTime(Duration(ns));
}

/// How long records of ended holds are kept.
[[nodiscard]] Duration grants_kept_for(const record::GateHead& head) noexcept;

/// The capacity that counts at present.
[[nodiscard]] std::uint64_t capacity_of(const record::GateHead& head) noexcept;

/// How much of a gate some of its holders have.
struct GateUsage {
  std::uint64_t weight = 0;
  bool writer = false;
  bool any = false;

  void add(std::uint64_t more, bool shared) noexcept {
    weight += more;
    writer = writer || !shared;
    any = true;
  }
};

/// Why one that wants so much cannot be in beside them, whatever else there is to it.
[[nodiscard]] std::optional<WhyNot> why_not_beside(const GateUsage& usage,
                                                   const record::GateHead& head,
                                                   std::uint64_t weight, bool shared) noexcept;

/// Why one that wants so much is not let in, if nobody else waits; nothing: it may go in.
[[nodiscard]] std::optional<WhyNot> why_not(const GateRows& rows, std::uint64_t weight, bool shared,
                                            StoreTime now);

/// Lets in all who wait, are alive and fit, in their order; for that removes dead waiters at the
/// front and, if one of the living does not fit, dead holders.
[[nodiscard]] Served serve(GateRows& rows, KnownLeases& leases, StoreTime now);

/// Why each of the waiters that are here is not in, in their order, if the dead are gone.
[[nodiscard]] std::vector<WhyNot> why_they_wait(const GateRows& rows, StoreTime now);

struct Asked {
  enum class Outcome : std::uint8_t { kHeld, kWaits, kRefused };
  Outcome outcome = Outcome::kRefused;
  std::string key;  ///< Of its row as a holder or waiter.
  std::optional<WhyNot> why;
  Served served;
};
/// The row of one who would wait.
[[nodiscard]] record::GateWaiter waiter_of(const GateRequest& request, StoreTime now);
/// Lets in, enqueues or refuses one who asks, and serves the others on the way.
[[nodiscard]] Asked ask(GateRows& rows, KnownLeases& leases, const GateRequest& request,
                        StoreTime now);

/// Throws `Unsatisfiable` or `InvalidArgument` if a request can never be let in by this definition.
void check_request(const GateRows& rows, const GateRequest& request);

/// Writes the definition, or throws `DefinitionMismatch` if there is another.
void define(GateRows& rows, const GateDefinition& definition);
void check_definition(std::string_view name, const GateDefinition& definition);
[[nodiscard]] GateDefinition definition_of(const record::GateHead& head);

}  // namespace holdfast::detail
