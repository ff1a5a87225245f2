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

#include "gate_parties.hpp"
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

/// A waiter that was let in by whoever made room for it.
struct Admitted {
  std::string holder_key;
  SharedRequest request;
  bool has_notice = false;  ///< Its notice was put.
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
  std::string key;         ///< Of its row as a holder or waiter.
  std::string holder_key;  ///< Of the row that it has, or will have.
  std::optional<WhyNot> why;
  Served served;
};
/// Lets in, enqueues or refuses one who asks, and serves the others on the way.
[[nodiscard]] Asked ask(GateRows& rows, KnownLeases& leases, SharedRequest request, StoreTime now);

/// Throws `Unsatisfiable` or `InvalidArgument` if a request can never be let in by this definition.
void check_request(const GateRows& rows, const GateRequest& request);

/// Writes the definition, or throws `DefinitionMismatch` if there is another.
void define(GateRows& rows, const GateDefinition& definition);
void check_definition(std::string_view name, const GateDefinition& definition);
[[nodiscard]] GateDefinition definition_of(const record::GateHead& head);

}  // namespace holdfast::detail
