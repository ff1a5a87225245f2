// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/gate.hpp>

namespace holdfast::detail {

/// Behind the key of a notice: that of the notice of a loss.
inline constexpr std::string_view kLostMark = "-lost";

[[nodiscard]] inline StoreTime store_time(std::int64_t ns) noexcept {
  return StoreTime(Duration(ns));
}

[[nodiscard]] inline std::int64_t ns_of_time(StoreTime time) noexcept {
  return time.time_since_epoch().count();
}

/// Whoever waits, if that is something in this process: what it is only those know who made it.
class LocalParty {
 public:
  LocalParty() = default;
  LocalParty(const LocalParty&) = delete;
  LocalParty& operator=(const LocalParty&) = delete;
  virtual ~LocalParty() = default;
};

/// Who wants in: the same for all that one party asks for.
struct GateAsker {
  std::string holder{};
  std::string owner{};      ///< Of the hold's row: the session, or nobody.
  std::string lease_key{};  ///< Empty: it hangs on nothing, and whoever asks sees to its end.
  /// Who cannot go on while this waits, itself first; none: unknown.
  std::vector<std::string> actors{};
};
using SharedAsker = std::shared_ptr<const GateAsker>;
[[nodiscard]] inline SharedAsker shared_asker(GateAsker asker) {
  return std::make_shared<const GateAsker>(std::move(asker));
}

/// What one wants.
struct GateRequest {
  /// A row that is put when something happens to it.
  struct Notice {
    std::string key;
    std::string value;
    /// If its hold is ended by force, this is put behind the value, and `kLostMark` behind the key.
    /// Empty: then no row is put.
    std::string lost_suffix{};
  };

  SharedAsker asker;       ///< There is one.
  std::string request_id;  ///< Unique to the owner: asked again with the same, it is the same.
  bool may_hold_others = false;  ///< One of the actors: only then can there be a deadlock.
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
  /// In no row: empty in a request that was read.
  std::weak_ptr<LocalParty> party{};
  /// For which of its operations it waits, if that is all that a grant has to say.
  std::optional<std::uint64_t> party_operation{};
  /// Where that is in memory, to be fetched ahead; it may be gone.
  const LocalParty* party_address = nullptr;
};
/// Whoever asks, waits and holds has the same one, which nobody changes.
using SharedRequest = std::shared_ptr<const GateRequest>;

/// One who waits. Of its request, its row does not have `queue_max`, which has been looked at.
struct GateWaiter {
  SharedRequest request;
  StoreTime asked_at{};
  std::uint64_t ticket = 0;
};

/// With the key of its row.
struct KeyedWaiter {
  std::string key;
  GateWaiter waiter;
};

/// One who is in. Of its request, its row has what may be asked of it yet: not the owner, which its
/// key has, the first actor, and the notice only for the case that it is ended by force.
struct GateHolder {
  SharedRequest request;
  StoreTime asked_at{};
  StoreTime granted_at{};
  std::vector<std::uint64_t> slots{};
  Version fence = 0;  ///< The version of its row. 0: the batch that lets it in is no commit yet.
};

/// Behind what is in `row`.
void write_row(const GateWaiter& waiter, std::string& row);
void write_row(const GateHolder& holder, std::string& row);
/// Damaged rows are a `StoreCorrupt`, those of later versions a `NewerFormat`.
[[nodiscard]] GateWaiter read_waiter(const Entry& row);
[[nodiscard]] GateHolder read_holder(const Entry& row);

}  // namespace holdfast::detail
