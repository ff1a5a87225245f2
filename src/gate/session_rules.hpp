// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/batch.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/commit_outcome.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>

/// What rows of sessions mean. Pure: whoever calls brings the row and the store's time.
namespace holdfast::detail {

inline constexpr std::string_view kSessionPrefix = "session/";

[[nodiscard]] std::string session_key(std::string_view id);
/// 12 hexadecimal digits of time in milliseconds, then 20 of `random` (80 bits).
[[nodiscard]] std::string session_id(StoreTime now, std::uint64_t random_high,
                                     std::uint16_t random_low);

/// What a session says of itself.
struct SessionFacts {
  std::string name;
  std::string host;
  std::uint32_t pid = 0;
  Duration ttl{};
};

/// The value of the first row.
[[nodiscard]] std::string session_row(const SessionFacts& facts, StoreTime now);

/// The value of the row that renews `row`; nothing if it has expired. Throws as `read_session`.
[[nodiscard]] std::optional<std::string> renewed_session_row(const Entry& row, StoreTime now);

/// Throws `NewerFormat`, or `StoreCorrupt` if it is no row of a session.
[[nodiscard]] SessionInfo read_session(const Entry& row, StoreTime now);

enum class Liveness : std::uint8_t {
  kLive,
  kExpired,  ///< Bury it before anything of it is given to others.
  kGone,     ///< Over, for ever: ids are not used again.
};

/// Throws as `read_session`: a row that cannot be read is not a dead session.
[[nodiscard]] Liveness liveness(const std::optional<Entry>& row, StoreTime now);

/// Lets `batch` erase `row`, on condition that it is still that one: a renewal that is under way
/// either comes first, and the batch conflicts, or finds nothing left to renew.
void bury(Batch& batch, const Entry& row);

}  // namespace holdfast::detail
