// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace holdfast {

// What makes a database refuse the fence of a holder that has been replaced
// (`DurableHold::fence()`, HOLDFAST_FENCE): statements for your own PostgreSQL and SQLite, a script
// for your own Redis. docs/fencing.md has complete examples.
//
// Present the fence first in every transaction, also in one that only reads: a check of writes
// alone loses updates. A lesser fence than one that was presented before is an error of the
// database, in which `is_stale_fence` finds its name; then roll back and stop, as another holds the
// lock. All texts end with a NUL, so `data()` is a C string.

/// The table that both SQL statements need, to be made once, in the database that has the data.
inline constexpr std::string_view kPostgresFenceTable =
    R"(CREATE TABLE IF NOT EXISTS holdfast_fences (
  resource text NOT NULL PRIMARY KEY,
  fence bigint NOT NULL CONSTRAINT holdfast_stale_fence CHECK (fence > 0)
);
)";

/// Presents fence $2 for resource $1. Locks the row of the resource to the end of the transaction,
/// so that what is read behind it is no older than all that holders before have written. With READ
/// COMMITTED, the default, it waits for others; with REPEATABLE READ and SERIALIZABLE it may fail
/// instead with SQLSTATE 40001: start the transaction over.
inline constexpr std::string_view kPostgresPresentFence =
    R"(INSERT INTO holdfast_fences AS seen (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence =
  CASE WHEN excluded.fence >= seen.fence THEN excluded.fence ELSE -excluded.fence END
)";

/// As `kPostgresFenceTable`. SQLite 3.24 or later.
inline constexpr std::string_view kSqliteFenceTable =
    R"(CREATE TABLE IF NOT EXISTS holdfast_fences (
  resource TEXT NOT NULL PRIMARY KEY,
  fence INTEGER NOT NULL
    CONSTRAINT holdfast_fence_is_no_integer CHECK (typeof(fence) = 'integer')
    CONSTRAINT holdfast_stale_fence CHECK (fence > 0)
);
)";

/// Presents fence ?2 for resource ?1, behind BEGIN IMMEDIATE. An error leaves the transaction open,
/// and SQLite would commit what follows: roll back.
inline constexpr std::string_view kSqlitePresentFence =
    R"(INSERT INTO holdfast_fences AS seen (resource, fence) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET fence =
  CASE WHEN excluded.fence >= seen.fence THEN excluded.fence ELSE -excluded.fence END
)";

/// Presents a fence and runs one command, be it a read or a write, as one step. For EVAL: KEYS[1]
/// is the key that keeps the greatest fence, the other KEYS are those of the command (a cluster
/// wants to know them); ARGV[1] is the fence, the rest the command, as it is always written.
/// Without a command it presents the fence alone.
///
/// ```
/// EVAL <script> 2 {stock}:fence {stock} 1048578 INCRBY {stock} -1
/// ```
inline constexpr std::string_view kRedisFencedCommand =
    R"(local function is_fence(text)
  return #text <= 20 and text:find('^[1-9]%d*$') ~= nil
end
local function is_less(a, b)  -- Digit by digit: numbers of Lua are exact up to 2^53 only.
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return false
end
local mine, seen = ARGV[1] or '', redis.call('GET', KEYS[1])
if not is_fence(mine) then
  return redis.error_reply("holdfast_fence_is_no_integer: ARGV[1] is '" .. mine .. "'")
end
if seen and not is_fence(seen) then
  return redis.error_reply("holdfast_fence_is_no_integer: " .. KEYS[1] .. " has '" .. seen .. "'")
end
if seen and is_less(mine, seen) then
  return redis.error_reply('holdfast_stale_fence: ' .. mine .. ' came after ' .. seen)
end
redis.call('SET', KEYS[1], mine)  -- Even if it has it: a replica, which may lag, refuses that.
if #ARGV == 1 then return redis.status_reply('OK') end
return redis.pcall(unpack(ARGV, 2))
)";

/// What an error of any of the three has in its text when the fence was stale.
inline constexpr std::string_view kStaleFence = "holdfast_stale_fence";

/// Whether an error of the database, by its text, says that the lock has passed to another.
[[nodiscard]] constexpr bool is_stale_fence(std::string_view error_text) noexcept {
  return error_text.find(kStaleFence) != std::string_view::npos;
}

}  // namespace holdfast
