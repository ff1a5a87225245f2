// SPDX-License-Identifier: Apache-2.0
#include "lock_args.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/core.h>
#include <holdfast/gate.hpp>

#include "option_value.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kLockFooter =
    "The command has NAME to itself, on all of the store, until it ends. It gets standard input,\n"
    "output and error, and in its environment HOLDFAST_LOCK, HOLDFAST_FENCE, HOLDFAST_HOLDER,\n"
    "HOLDFAST_STORE and, but for --shared, HOLDFAST_SLOT and HOLDFAST_SLOTS. Times are 500ms, "
    "30s,\n"
    "30m, 3h, 1d.\n"
    "\n"
    "SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to it. If holdfast "
    "itself\n"
    "is killed, the command gets SIGTERM, and others wait until the lease has run out.\n"
    "\n"
    "Exit codes: that of the command, and\n"
    "  64      the command line cannot be understood, or the lock is another kind of lock\n"
    "  65      the store is damaged, of a newer format, or none at all\n"
    "  69      the store is busy, or cannot be reached\n"
    "  74      reading or writing failed, or the disk is full\n"
    "  75      not acquired: it was not free with -n, or not in time with -w (-E changes it)\n"
    "  77      no permission\n"
    "  79      the lease was lost while the command ran\n"
    "  124     --max-run was reached\n"
    "  126     the command cannot be executed\n"
    "  127     the command is not found\n"
    "  128+n   signal n ended the command, or came while it waited for the lock";

constexpr int kExitCodeMax = 255;
// What is shorter is lost while the heartbeat waits for its turn on a busy machine.
constexpr Duration kLeaseMin = std::chrono::milliseconds(100);
constexpr Duration kRunMin = std::chrono::milliseconds(1);

OnLost on_lost_of(const std::string& word) {
  if (word == "term") {
    return OnLost::kTerminate;
  }
  if (word == "kill") {
    return OnLost::kKill;
  }
  if (word == "warn") {
    return OnLost::kWarn;
  }
  const auto suggestion = did_you_mean(word, {"term", "kill", "warn"});
  throw UsageError(fmt::format("'--on-lost {}' is unknown{}", word,
                               suggestion.empty() ? "; write term, kill or warn" : suggestion));
}

void check_together(const LockWords& words) {
  const bool read_write = words.shared || words.exclusive;
  if (words.shared && words.exclusive) {
    throw UsageError("'--shared' and '--exclusive' exclude each other");
  }
  if (read_write && !words.slots.empty()) {
    throw UsageError(fmt::format("'--slots' and '{}' exclude each other",
                                 words.shared ? "--shared" : "--exclusive"));
  }
  if (!words.weight.empty() && words.slots.empty()) {
    throw UsageError("'--weight' needs '--slots N'");
  }
  if (words.no_wait && !words.wait.empty()) {
    throw UsageError("'--no-wait' and '--wait' exclude each other");
  }
  if (words.name.empty()) {
    throw UsageError("the name is missing: write 'holdfast lock NAME -- COMMAND'");
  }
  if (words.command.empty()) {
    throw UsageError(fmt::format(
        "the command is missing: write it behind '--', as in 'holdfast lock {} -- make'",
        words.name));
  }
}

/// CLI11 does not know of what is behind '--'.
class LockFormatter final : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* /*app*/,
                                       std::string /*name*/) const override {
    return "Usage: holdfast lock [OPTIONS] NAME -- COMMAND...\n";
  }
};

void add_options(CLI::App& lock, LockWords& words) {
  lock.add_option("NAME", words.name, "The lock; all who say the same name share it")
      ->type_name(" ");
  lock.add_option("--slots", words.slots, "So many may hold it at once")->type_name("N");
  lock.add_flag("--shared", words.shared, "As a reader: with other readers, without a writer");
  lock.add_flag("--exclusive", words.exclusive, "As the writer of a lock that has readers");
  lock.add_option("--weight", words.weight, "Take K of the slots (1)")->type_name("K");
  lock.add_option("--priority", words.priority, "From -100 to 100 (0): higher goes first")
      ->type_name("P");
  lock.add_flag("-n,--no-wait", words.no_wait, "Do not wait");
  lock.add_option("-w,--wait", words.wait, "Wait no longer than this")->type_name("TIME");
  lock.add_option("-E,--conflict-exit-code", words.conflict_exit_code,
                  "The exit code if it is not acquired (75)")
      ->type_name("C");
  lock.add_option("--lease", words.lease, "How long it outlives a holder that died (30s)")
      ->type_name("TIME");
  lock.add_option("--max-run", words.max_run, "End the command after this")->type_name("TIME");
  lock.add_option("--on-lost", words.on_lost,
                  "If the lease is lost: term (the default), kill or warn")
      ->type_name("WHAT");
  lock.add_option("--grace", words.grace, "How long after SIGTERM the command is killed (10s)")
      ->type_name("TIME");
  lock.add_option("--reason", words.reason, "For people who look at the lock")->type_name("TEXT");
  lock.add_flag("-v,--verbose", words.verbose, "Say on standard error what happens");
  lock.add_option(
          "--store", words.url,
          "The store, such as sqlite:PATH; or set HOLDFAST_STORE; otherwise one of your own")
      ->type_name("URL");
}

}  // namespace

CLI::App* add_lock_command(CLI::App& app, LockWords& words) {
  CLI::App* lock = app.add_subcommand("lock", "Run a command while holding a lock");
  lock->group("Commands")->allow_extras();
  lock->formatter(std::make_shared<LockFormatter>());
  add_options(*lock, words);
  lock->footer(kLockFooter);
  return lock;
}

LockArgs lock_args(const LockWords& words) {
  check_together(words);
  LockArgs args;
  args.name = words.name;
  args.command = words.command;
  args.reason = words.reason;
  args.verbose = words.verbose;
  args.url = words.url;
  args.kind = words.shared      ? LockKind::kReader
              : words.exclusive ? LockKind::kWriter
                                : LockKind::kPermits;
  constexpr auto kSlotsMax = static_cast<std::int64_t>(kGateCapacityMax);
  if (!words.slots.empty()) {
    args.slots = static_cast<std::uint64_t>(number_of("--slots", words.slots, 1, kSlotsMax));
  }
  if (!words.weight.empty()) {
    const auto most = static_cast<std::int64_t>(*args.slots);
    args.weight = static_cast<std::uint64_t>(number_of("--weight", words.weight, 1, most));
  }
  if (!words.priority.empty()) {
    args.priority = static_cast<int>(
        number_of("--priority", words.priority, kGatePriorityMin, kGatePriorityMax));
  }
  if (words.no_wait) {
    args.wait = Duration::zero();
  } else if (!words.wait.empty()) {
    args.wait = time_of("--wait", words.wait);
  }
  if (!words.conflict_exit_code.empty()) {
    args.conflict_exit_code = static_cast<int>(
        number_of("--conflict-exit-code", words.conflict_exit_code, 0, kExitCodeMax));
  }
  args.lease = time_of("--lease", words.lease, kLeaseMin);
  if (!words.max_run.empty()) {
    args.run_max = time_of("--max-run", words.max_run, kRunMin);
  }
  args.on_lost = on_lost_of(words.on_lost);
  args.grace = time_of("--grace", words.grace);
  return args;
}

}  // namespace holdfast::cli
