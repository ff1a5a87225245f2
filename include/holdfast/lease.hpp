// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// The right to something for a while, known to the store under a key.
///
/// ```
/// const LeaseAnswer answer = co_await acquire_lease(*store, "leader", "host-7", 30s);
/// if (const Lease* lease = answer.lease()) {
///   ...
///   std::optional<Lease> renewed = co_await renew_lease(*store, *lease, 30s);
/// }
/// ```
struct Lease {
  std::string key;
  std::string owner;
  /// Greater than that of every lease on this key before, whatever was deleted or restored between.
  std::uint64_t token = 0;
  /// Until when its holder may count on it, by the store's `clock()`: a little less than was asked
  /// for, counted from before it was asked for, so that it is over here before it is over for
  /// others.
  TimePoint valid_until{};

  [[nodiscard]] bool valid(TimePoint now) const noexcept { return now < valid_until; }
};

/// Someone else has it.
struct LeaseHeld {
  std::string owner;
  std::uint64_t token = 0;
  Duration remaining{};  ///< By the store's clock.
};

/// What came of asking for a lease.
class [[nodiscard]] LeaseAnswer {
 public:
  LeaseAnswer(Lease lease) : answer_(std::move(lease)) {}    // NOLINT(*-explicit-*)
  LeaseAnswer(LeaseHeld held) : answer_(std::move(held)) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] const Lease* lease() const noexcept { return std::get_if<Lease>(&answer_); }
  [[nodiscard]] const LeaseHeld* held() const noexcept { return std::get_if<LeaseHeld>(&answer_); }

 private:
  std::variant<Lease, LeaseHeld> answer_;
};

/// How much faster one clock may run than another, as one part in so many, without two holders
/// believing in their leases at a time.
inline constexpr int kLeaseDriftParts = 100;

/// The lease, if nobody has it or the last one has expired: at `expiry <= now` by the store's
/// clock. Also an owner that has it already is told that it is held. An empty owner, or a `ttl`
/// that is not above zero or is over a year, is an `InvalidArgument`. A lost answer is found again
/// by reading.
[[nodiscard]] Task<LeaseAnswer> acquire_lease(Store& store, std::string_view key,
                                              std::string_view owner, Duration ttl);

/// The same lease for `ttl` from now. Nothing if it has expired, even if nobody else took it, or is
/// no longer there.
[[nodiscard]] Task<std::optional<Lease>> renew_lease(Store& store, const Lease& lease,
                                                     Duration ttl);

/// Ends it. False if it was no longer there: whoever has it now keeps it.
[[nodiscard]] Task<bool> release_lease(Store& store, const Lease& lease);

}  // namespace holdfast
