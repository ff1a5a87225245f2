// SPDX-License-Identifier: Apache-2.0
#include "lock_args.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <holdfast/gate.hpp>

#include "option_value.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kLockFooter =
    "The command has NAME to itself, on all of the store, until it ends. It gets standard input,\n"
    "output and error, and in its environment HOLDFAST_LOCK, HOLDFAST_FENCE, HOLDFAST_HOLDER,\n"
    "HOLDFAST_STORE, HOLDFAST_LOCKS and, but for --shared, HOLDFAST_SLOT and HOLDFAST_SLOTS.\n"
    "Times are 500ms, 30s, 30m, 3h, 1d.\n"
    "\n"
    "Several locks, all or nothing: '--lock NAME' for each. Behind a name, ':shared' and\n"
    "':exclusive' are as the options, ':slots=N' is one of N slots, and ':slots=K/N' is K of "
    "them.\n"
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
    "  75      not acquired: it was not free with -n, or not in time with -w (-E changes it);\n"
    "          or to wait for it would never have ended: whoever holds it waits for this one\n"
    "  77      no permission\n"
    "  78      a configuration file cannot be used\n"
    "  79      the lease was lost while the command ran\n"
    "  124     --max-run was reached\n"
    "  126     the command cannot be executed\n"
    "  127     the command is not found\n"
    "  128+n   signal n ended the command, or came while it waited for the lock";

constexpr int kExitCodeMax = 255;
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

void check_kind(const LockWords& words) {
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
  if (!words.locks.empty() && (read_write || !words.slots.empty())) {
    throw UsageError(fmt::format(
        "'--lock' says of each lock what it is; write it behind the name, such as '--lock {}:{}'",
        words.locks.front(), read_write ? "shared" : "slots=" + words.slots));
  }
}

void check_together(const LockWords& words) {
  check_kind(words);
  if (words.no_wait && !words.wait.empty()) {
    throw UsageError("'--no-wait' and '--wait' exclude each other");
  }
  if (!words.name.empty() && !words.locks.empty()) {
    throw UsageError(
        fmt::format("'{}' stands beside '--lock'; write '--lock {}'", words.name, words.name));
  }
  if (words.name.empty() && words.locks.empty()) {
    throw UsageError("the name is missing: write 'holdfast lock NAME -- COMMAND'");
  }
  if (words.command.empty()) {
    throw UsageError(fmt::format(
        "the command is missing: write it behind '--', as in 'holdfast lock {} -- make'",
        words.name.empty() ? "--lock " + words.locks.front() : words.name));
  }
}

constexpr auto kSlotsMax = static_cast<std::int64_t>(kGateCapacityMax);

WantedLock lock_of_options(const LockWords& words) {
  WantedLock lock;
  lock.name = words.name;
  lock.kind = words.shared      ? LockKind::kReader
              : words.exclusive ? LockKind::kWriter
                                : LockKind::kPermits;
  if (!words.slots.empty()) {
    lock.slots = static_cast<std::uint64_t>(number_of("--slots", words.slots, 1, kSlotsMax));
  }
  if (!words.weight.empty()) {
    const auto most = static_cast<std::int64_t>(*lock.slots);
    lock.weight = static_cast<std::uint64_t>(number_of("--weight", words.weight, 1, most));
  }
  return lock;
}

/// "NAME", "NAME:shared", "NAME:exclusive", "NAME:slots=4", "NAME:slots=2/4".
WantedLock lock_of_word(const std::string& word) {
  constexpr std::string_view kSlots = "slots=";
  WantedLock lock;
  const auto colon = word.rfind(':');
  const std::string kind = colon == word.npos ? "" : word.substr(colon + 1);
  lock.name = word.substr(0, colon);
  if (kind == "shared") {
    lock.kind = LockKind::kReader;
  } else if (kind == "exclusive") {
    lock.kind = LockKind::kWriter;
  } else if (kind.starts_with(kSlots)) {
    const std::string count = kind.substr(kSlots.size());
    const auto slash = count.find('/');
    const std::string all = slash == count.npos ? count : count.substr(slash + 1);
    const std::string option = fmt::format("--lock {}:slots", lock.name);
    lock.slots = static_cast<std::uint64_t>(number_of(option, all, 1, kSlotsMax));
    if (slash != count.npos) {
      lock.weight = static_cast<std::uint64_t>(
          number_of(option, count.substr(0, slash), 1, static_cast<std::int64_t>(*lock.slots)));
    }
  } else {
    lock.name = word;
  }
  if (lock.name.empty()) {
    throw UsageError(fmt::format("the name is missing in '--lock {}'", word));
  }
  return lock;
}

std::vector<WantedLock> wanted_locks(const LockWords& words) {
  if (words.locks.empty()) {
    return {lock_of_options(words)};
  }
  std::vector<WantedLock> locks;
  for (const std::string& word : words.locks) {
    WantedLock lock = lock_of_word(word);
    if (std::ranges::any_of(locks, [&](const auto& one) { return one.name == lock.name; })) {
      throw UsageError(fmt::format("'--lock {}' is there twice", lock.name));
    }
    locks.push_back(std::move(lock));
  }
  return locks;
}

/// CLI11 does not know of what is behind '--'.
class LockFormatter final : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* /*app*/,
                                       std::string /*name*/) const override {
    return "Usage: holdfast lock [OPTIONS] NAME -- COMMAND...\n"
           "       holdfast lock [OPTIONS] --lock NAME --lock NAME... -- COMMAND...\n";
  }
};

void add_options(CLI::App& lock, LockWords& words) {
  lock.add_option("NAME", words.name, "The lock; all who say the same name share it")
      ->type_name(" ");
  lock.add_option("--lock", words.locks, "One of several locks; once for each")
      ->type_name("NAME[:KIND]")
      ->expected(1)
      ->take_all();
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
  add_store_option(lock, words.url);
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
  args.locks = wanted_locks(words);
  args.by_lock_option = !words.locks.empty();
  args.command = words.command;
  args.reason = words.reason;
  args.verbose = words.verbose;
  args.url = words.url;
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
  args.lease = time_of("--lease", words.lease, kLockLeaseMin);
  if (!words.max_run.empty()) {
    args.run_max = time_of("--max-run", words.max_run, kRunMin);
  }
  args.on_lost = on_lost_of(words.on_lost);
  args.grace = time_of("--grace", words.grace);
  return args;
}

}  // namespace holdfast::cli
