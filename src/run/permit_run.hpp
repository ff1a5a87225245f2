// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/clock.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast::detail {

/// The workflow that every engine knows: a run of it is a permit that somebody has.
inline constexpr std::string_view kPermitType = "holdfast.permit";
/// Asks it to hold on.
inline constexpr std::string_view kRenewSignal = "renew";

/// What such a run ends with.
inline constexpr std::string_view kPermitReleased = "released";
inline constexpr std::string_view kPermitExpired = "lease_expired";

struct PermitInput {
  std::string pool;
  std::string slot;
  std::uint64_t fence = 0;
  std::int64_t lease_ns = 0;  ///< From the run's start on.
};
BOOST_DESCRIBE_STRUCT(PermitInput, (), (pool, slot, fence, lease_ns))

/// To hold on for so long from when it comes.
struct Renewal {
  std::uint64_t number = 0;  ///< Told to the parent when that is done. 0: it did not ask.
  Duration lease{};
};
[[nodiscard]] boost::json::value renewal_value(const Renewal& renewal);
/// Nothing: it is something else, which somebody has sent.
[[nodiscard]] std::optional<Renewal> read_renewal(const boost::json::value& value);

[[nodiscard]] std::string permit_run_id(std::string_view pool, std::string_view slot);

/// Waits until the lease ends, or it is asked to stop. The commit with its end frees the slot.
[[nodiscard]] const Workflow<PermitInput, std::string>& permit_workflow();

}  // namespace holdfast::detail
