// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/clock.hpp>

namespace holdfast::cli {

/// The command line cannot be understood; the message names the word.
class UsageError final : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Only print this: the help, the version.
struct PrintText {
  std::string text;
};

struct DemoArgs {
  std::vector<std::string> only;  ///< All if empty.
  bool list = false;
};

enum class StoreAction : std::uint8_t { kCheck, kBackup, kStats };
enum class Output : std::uint8_t { kTable, kJson, kJsonLines };

struct StoreArgs {
  StoreAction action = StoreAction::kCheck;
  std::string url;               ///< Never empty.
  std::filesystem::path target;  ///< Of a backup.
  Output output = Output::kTable;
};

// What is shorter is lost while the heartbeat waits for its turn on a busy machine.
inline constexpr Duration kLockLeaseMin = std::chrono::milliseconds(100);
inline constexpr Duration kLockLeaseMax = std::chrono::hours(24);

enum class LockKind : std::uint8_t { kPermits, kReader, kWriter };
/// What becomes of the command when the lease is lost.
enum class OnLost : std::uint8_t { kTerminate, kKill, kWarn };

/// One of the locks that a command is to have.
struct WantedLock {
  std::string name;
  LockKind kind = LockKind::kPermits;
  std::optional<std::uint64_t> slots;  ///< Nothing: a mutex, or the writer if there are readers.
  std::uint64_t weight = 1;
};

struct LockArgs {
  std::vector<WantedLock> locks;  ///< One at least; no name twice.
  bool by_lock_option = false;    ///< They were given by '--lock'.
  int priority = 0;
  std::optional<Duration> wait;  ///< Nothing: for ever.
  std::optional<int> conflict_exit_code;
  Duration lease{};
  std::optional<Duration> run_max;
  OnLost on_lost = OnLost::kTerminate;
  Duration grace{};
  std::string reason;
  bool verbose = false;
  std::string url;  ///< Empty: the user's own store.
  std::vector<std::string> command;
};

enum class LocksAction : std::uint8_t {
  kList,
  kShow,
  kHistory,
  kRelease,
  kSet,
  kPause,
  kResume,
  kDrain,
  kDisableSlot,
  kEnableSlot
};

struct LocksArgs {
  LocksAction action = LocksAction::kList;
  std::string name;  ///< Empty only for a list of all.
  std::string url;   ///< Empty: the user's own store.
  Output output = Output::kTable;
  std::size_t limit = 0;      ///< Of a history.
  bool only_changes = false;  ///< Likewise.
  std::optional<std::uint64_t> fence;
  std::string holder;
  bool yes = false;
  std::string slot;  ///< A number, or a name.
  bool sets_capacity = false;
  std::optional<std::uint64_t> capacity;  ///< Nothing: as defined.
  bool sets_history = false;
  std::optional<Duration> keep_history;  ///< Nothing: as usual.
  std::string by;                        ///< Empty: this user.
  std::string reason;
};

struct ExplainArgs {
  std::string what;  ///< A lock, or a holder.
  std::string url;   ///< Empty: the user's own store.
  bool json = false;
};

enum class GraphForm : std::uint8_t { kText, kDot, kJson };

struct GraphArgs {
  std::string url;  ///< Empty: the user's own store.
  GraphForm form = GraphForm::kText;
};

struct TopArgs {
  std::string url;  ///< Empty: the user's own store.
  bool once = false;
};

enum class StateAction : std::uint8_t { kGet, kSet, kPatch, kDelete, kList, kWatch };

struct StateArgs {
  StateAction action = StateAction::kGet;
  std::string scope;  ///< "global", "user" and so on.
  std::string id;     ///< Of the scope; empty for "global".
  std::string name;   ///< Of the cell; of a list, what names begin with.
  std::string json;   ///< "-": on standard input.
  std::optional<Version> if_version;
  bool if_absent = false;
  bool all_scopes = false;       ///< Of a list.
  std::string after;             ///< Of a list: a key, or empty.
  std::size_t limit = 0;         ///< Of a list.
  std::optional<Output> output;  ///< Nothing: what suits the command and the terminal.
  std::string url;               ///< Empty: the user's own store.
};

/// `holdfast config show`.
struct ConfigArgs {
  Output output = Output::kTable;
};

using Args = std::variant<PrintText, DemoArgs, StoreArgs, LockArgs, LocksArgs, ExplainArgs,
                          GraphArgs, TopArgs, StateArgs, ConfigArgs>;

[[nodiscard]] Args parse_args(int argc, const char* const* argv);

}  // namespace holdfast::cli
