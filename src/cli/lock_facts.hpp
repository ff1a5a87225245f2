// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "exit_code.hpp"

namespace holdfast::cli {

/// By their uids.
using Runs = std::map<std::string, RunInfo>;

/// Locks as they were at one moment, more or less: each is read by itself.
struct Locks {
  StoreTime now{};
  std::vector<GateInfo> gates;  ///< By name.
  Runs runs;                    ///< That hold them or wait.
};

/// All locks. Runs that are `known` are not looked for again.
[[nodiscard]] Task<Locks> read_locks(Store& store, Runs known = {});
/// One of them, or none if there is no such lock.
[[nodiscard]] Task<Locks> read_lock(Store& store, std::string name);

/// The store that `url` names, which must exist. Without a URL the user's own, or nothing if there
/// is none yet.
[[nodiscard]] std::unique_ptr<Store> existing_store(const std::string& url);

/// Says on standard error that there is no such lock, and which one was likely meant.
[[nodiscard]] Task<ExitCode> tell_no_such_lock(Store* store, std::string name);

[[nodiscard]] bool is_read_write(const GateInfo& gate) noexcept;
/// How much of the capacity is held; of a read-write lock, how many hold it.
[[nodiscard]] std::uint64_t held_of(const GateInfo& gate) noexcept;
/// "mutex", "slots" or "read-write".
[[nodiscard]] std::string_view kind_of(const GateInfo& gate) noexcept;
/// "open", "paused" or "draining".
[[nodiscard]] std::string_view state_of(const GateInfo& gate) noexcept;
/// An operator has set another capacity than its users have defined.
[[nodiscard]] bool is_overridden(const GateInfo& gate) noexcept;
/// "full", "behind" and so on: one word for programs.
[[nodiscard]] std::string_view word_of(WhyNot::Kind kind) noexcept;

// For people; safe on a terminal.

/// "6 (defined 4)", "3 (slot 2 off)", "1 or 1000".
[[nodiscard]] std::string capacity_text(const GateInfo& gate);
/// "0,1", "left", "shared", "all".
[[nodiscard]] std::string slots_text(const GateInfo& gate, const GateHolderInfo& holder);
/// The rule's own words, and until when it holds.
[[nodiscard]] std::string why_text(const WhyNot& why, StoreTime now);
/// "a: mutex, paused, capacity 1, 1 held, 0 waiting", without the name.
[[nodiscard]] std::string summary_of(const GateInfo& gate);

}  // namespace holdfast::cli
