// SPDX-License-Identifier: Apache-2.0
#include "lock_command.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>

#include "child.hpp"
#include "duration.hpp"
#include "escape.hpp"
#include "exit_code.hpp"
#include "host_name.hpp"
#include "own_store.hpp"

namespace holdfast::cli {

namespace {

using Steady = std::chrono::steady_clock;

/// Lets other threads wake one that polls.
class Wake {
 public:
  Wake() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "eventfd");
    }
  }
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  ~Wake() { close(fd_); }

  void wake() const noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!write(fd_, &one, sizeof one));
  }
  [[nodiscard]] bool take() const noexcept {
    std::uint64_t count = 0;
    return read(fd_, &count, sizeof count) == sizeof count;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

/// Returns when one of the two is readable, or at `until`.
void poll_both(int one, int other, std::optional<Steady::time_point> until) {
  int timeout_ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Steady::now()).count();
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
  }
  std::array<pollfd, 2> both{pollfd{.fd = one, .events = POLLIN, .revents = 0},
                             pollfd{.fd = other, .events = POLLIN, .revents = 0}};
  if (poll(both.data(), both.size(), timeout_ms) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
}

/// What is said on standard error.
class Voice {
 public:
  Voice(Terminal& terminal, bool verbose) : terminal_(terminal), verbose_(verbose) {}
  [[nodiscard]] bool verbose() const noexcept { return verbose_; }
  void tell(std::string_view text) const {
    if (verbose_) {
      terminal_.line(terminal_.paint(Colour::kDim, fmt::format("holdfast: {}", one_line(text))));
    }
  }
  void warn(std::string_view text) const {
    terminal_.line(terminal_.paint(Colour::kRed, fmt::format("holdfast: {}", one_line(text))));
  }

 private:
  Terminal& terminal_;
  bool verbose_;
};

// --- Asking --------------------------------------------------------------------------------------

/// "backup.sh:4711@db1".
std::string holder_name(const std::string& command) {
  constexpr std::size_t kPartMax = 64;
  const std::string file = one_line(std::filesystem::path(command).filename().string());
  return fmt::format("{}:{}@{}", file.substr(0, kPartMax), getpid(), host_name());
}

/// "'gpus' has 4 slots".
std::string kind_text(const std::string& name, const GateDefinition& definition) {
  if (definition.kind == GateDefinition::Kind::kReadWrite) {
    return fmt::format("'{}' has readers and writers", name);
  }
  return definition.capacity == 1 ? fmt::format("'{}' is for one at a time", name)
                                  : fmt::format("'{}' has {} slots", name, definition.capacity);
}

std::string kind_advice(const GateDefinition& definition) {
  if (definition.kind == GateDefinition::Kind::kReadWrite) {
    return "write --shared, or --exclusive, and no --slots";
  }
  return definition.capacity == 1 ? "write neither --slots nor --shared nor --exclusive"
                                  : fmt::format("write --slots {}", definition.capacity);
}

/// What the lock is defined as: as in the store, if that is what was asked for. Throws
/// `DefinitionMismatch` if it is not.
GateDefinition definition_for(const LockArgs& args, const std::optional<GateInfo>& info) {
  using Kind = GateDefinition::Kind;
  constexpr std::uint64_t kReadersMax = 1'000;  // As of Gates::shared_mutex.
  GateDefinition wanted;
  if (args.kind != LockKind::kPermits) {
    wanted.kind = Kind::kReadWrite;
    wanted.capacity = kReadersMax;
  } else {
    wanted.capacity = args.slots.value_or(1);
  }
  if (!info) {
    return wanted;
  }
  const GateDefinition& stored = info->definition;
  const bool is_only_writer = args.kind == LockKind::kPermits && !args.slots;
  const bool fits = stored.kind == Kind::kReadWrite
                        ? wanted.kind == Kind::kReadWrite || is_only_writer
                        : wanted.kind == Kind::kPermits && wanted.capacity == stored.capacity;
  if (!fits) {
    throw DefinitionMismatch(kind_text(args.name, stored) + "; " + kind_advice(stored));
  }
  return stored;
}

std::string waiting_text(const std::string& name, const std::optional<GateInfo>& info) {
  constexpr std::size_t kNamedMax = 3;
  std::string holders;
  const std::size_t count = info ? info->holders.size() : 0;
  for (std::size_t i = 0; i < std::min(count, kNamedMax); ++i) {
    const GateHolderInfo& holder = info->holders[i];
    holders += (i == 0 ? "" : ", ") + holder.holder;
    holders += holder.reason.empty() ? std::string{} : fmt::format(" ({})", holder.reason);
  }
  if (count > kNamedMax) {
    holders += fmt::format(" and {} more", count - kNamedMax);
  }
  return fmt::format("waiting for '{}': held by {}, {} waiting", name,
                     holders.empty() ? "nobody" : holders, info ? info->waiter_count : 0);
}

class Asker {
 public:
  Asker(const LockArgs& args, Store& store, Gates& gates, const Voice& voice)
      : args_(args), store_(store), gates_(gates), voice_(voice) {}

  /// Wakes `ended` at its end, whatever that is.
  Task<DurableHold> ask(const Wake& ended) {
    const std::unique_ptr<const Wake, void (*)(const Wake*)> at_end(
        &ended, [](const Wake* wake) { wake->wake(); });
    std::optional<GateInfo> info = co_await inspect_gate(store_, args_.name);
    definition_ = definition_for(args_, info);
    if (voice_.verbose()) {
      // Only to be able to say for whom it waits, before it does.
      std::optional<DurableHold> at_once = co_await try_acquire();
      if (at_once) {
        co_return *std::move(at_once);
      }
      info = co_await inspect_gate(store_, args_.name);
      if (args_.wait != Duration::zero()) {
        voice_.tell(waiting_text(args_.name, info));
      }
    }
    DurableHold hold = co_await acquire();
    co_return hold;
  }

 private:
  [[nodiscard]] AcquireOptions options() const {
    AcquireOptions options;
    options.timeout = args_.wait;
    options.weight = args_.weight;
    options.priority = args_.priority;
    options.reason = args_.reason;
    return options;
  }
  Task<DurableHold> acquire() {
    return args_.kind == LockKind::kReader
               ? gates_.shared_mutex(args_.name, definition_.capacity).acquire_shared(options())
               : gates_.gate(args_.name, definition_).acquire(options());
  }
  Task<std::optional<DurableHold>> try_acquire() {
    return args_.kind == LockKind::kReader
               ? gates_.shared_mutex(args_.name, definition_.capacity).try_acquire_shared(options())
               : gates_.gate(args_.name, definition_).try_acquire(options());
  }

  const LockArgs& args_;
  Store& store_;
  Gates& gates_;
  const Voice& voice_;
  GateDefinition definition_;
};

/// The first signal that ends a program, if it comes before `ended` is woken.
std::optional<int> signal_before(const Wake& ended, const Signals& signals) {
  for (;;) {
    poll_both(signals.fd(), ended.fd(), std::nullopt);
    while (const auto signal = signals.read()) {
      if (signal->number != SIGCHLD) {
        return signal->number;
      }
    }
    if (ended.take()) {
      return std::nullopt;
    }
  }
}

// --- Running -------------------------------------------------------------------------------------

std::string slots_text(const std::vector<std::uint64_t>& slots) {
  std::string text;
  for (const std::uint64_t slot : slots) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", slot);
  }
  return text;
}

/// That of this program, and what the command may want to know.
std::vector<std::string> environment_for(const DurableHold& hold, const Session& session) {
  constexpr std::array<std::string_view, 6> kOurs{
      "HOLDFAST_LOCK=",  "HOLDFAST_FENCE=",  "HOLDFAST_SLOT=",
      "HOLDFAST_SLOTS=", "HOLDFAST_HOLDER=", "HOLDFAST_STORE="};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kOurs, [&](auto name) { return text.starts_with(name); })) {
      variables.emplace_back(text);
    }
  }
  variables.push_back("HOLDFAST_LOCK=" + hold.name());
  variables.push_back(fmt::format("HOLDFAST_FENCE={}", hold.fence()));
  if (!hold.slots().empty()) {
    variables.push_back(fmt::format("HOLDFAST_SLOT={}", hold.slots().front()));
    variables.push_back(fmt::format("HOLDFAST_SLOTS={}", slots_text(hold.slots())));
  }
  variables.push_back("HOLDFAST_HOLDER=" + session.name());
  variables.push_back("HOLDFAST_STORE=" + session.store().url());
  return variables;
}

/// The command, and what can end it before it ends.
class Supervisor {
 public:
  Supervisor(const LockArgs& args, const Voice& voice, Child& child)
      : args_(args), voice_(voice), child_(child) {
    if (args.run_max) {
      stop_at_ = Steady::now() + *args.run_max;
    }
  }

  /// Waits for its end; the exit code.
  int run(const Signals& signals, const std::stop_token& lost) {
    const Wake lost_wake;
    const std::stop_callback on_lost(lost, [&lost_wake] { lost_wake.wake(); });
    for (;;) {
      if (const auto code = child_.exit_code()) {
        return verdict_.value_or(*code);
      }
      poll_both(signals.fd(), lost_wake.fd(), next_deadline());
      while (const auto signal = signals.read()) {
        if (signal->number != SIGCHLD && !signal->of_terminal) {
          child_.send(signal->number);
        }
      }
      if (lost_wake.take()) {
        lease_lost();
      }
      check_deadlines();
    }
  }

 private:
  [[nodiscard]] std::optional<Steady::time_point> next_deadline() const {
    return stop_at_ && kill_at_ ? std::min(stop_at_, kill_at_) : stop_at_ ? stop_at_ : kill_at_;
  }

  void lease_lost() {
    verdict_ = kLeaseLost;
    const std::string lost =
        fmt::format("the lease of '{}' was lost: others may hold it now; ", args_.name);
    switch (args_.on_lost) {
      case OnLost::kTerminate:
        voice_.warn(lost + "the command is terminated");
        terminate();
        break;
      case OnLost::kKill:
        voice_.warn(lost + "the command is killed");
        child_.send(SIGKILL);
        break;
      case OnLost::kWarn:
        voice_.warn(lost + "the command runs on");
        break;
    }
  }

  void check_deadlines() {
    const auto now = Steady::now();
    if (stop_at_ && now >= *stop_at_) {
      stop_at_.reset();
      verdict_ = verdict_.value_or(kRanTooLong);
      voice_.warn(fmt::format("the command ran for {}, as long as it may; it is terminated",
                              duration_text(*args_.run_max)));
      terminate();
    }
    if (kill_at_ && now >= *kill_at_) {
      kill_at_.reset();
      voice_.warn("the command did not end in time; it is killed");
      child_.send(SIGKILL);
    }
  }

  void terminate() {
    child_.terminate();
    kill_at_ = kill_at_.value_or(Steady::now() + args_.grace);
  }

  const LockArgs& args_;
  const Voice& voice_;
  Child& child_;
  std::optional<int> verdict_;
  std::optional<Steady::time_point> stop_at_;
  std::optional<Steady::time_point> kill_at_;
};

int run_command(const LockArgs& args, const Voice& voice, const Signals& signals,
                const DurableHold& hold, const Session& session) {
  std::optional<Child> child;
  try {
    child.emplace(args.command, environment_for(hold, session), signals.mask_before());
  } catch (const std::system_error& error) {
    voice.warn(fmt::format("'{}' cannot be run: {}", args.command.front(), error.code().message()));
    return error.code() == std::errc::no_such_file_or_directory ? kNotFound : kNotExecutable;
  }
  return Supervisor(args, voice, *child).run(signals, session.lost_token());
}

// --- From beginning to end -----------------------------------------------------------------------

class LockCommand {
 public:
  LockCommand(const LockArgs& args, const Voice& voice, const Signals& signals)
      : args_(args),
        voice_(voice),
        signals_(signals),
        store_(open_store(args.url.empty() ? own_store_url(true) : args.url)),
        pool_(1, store_->clock()),
        session_(open_session()) {}

  int run() {
    std::exception_ptr error;
    int code = kInternal;
    try {
      // Its end sees to it that whoever waited has left the queue.
      Gates gates(*session_);
      code = run_with(gates);
    } catch (...) {
      error = std::current_exception();
    }
    close_session();
    if (error) {
      std::rethrow_exception(error);
    }
    return code;
  }

 private:
  std::unique_ptr<Session> open_session() {
    const std::string name = holder_name(args_.command.front());
    return sync_wait(pool_, Session::open(*store_, {.ttl = args_.lease, .name = name}));
  }

  int run_with(Gates& gates) {
    const auto asked_at = Steady::now();
    const Wake ended;
    Asker asker(args_, *store_, gates, voice_);
    auto asking = spawn(pool_, asker.ask(ended));
    const std::optional<int> signal = signal_before(ended, signals_);
    if (signal) {
      signals_.unblock();  // A second one does not wait for the store.
      asking.request_stop();
    }
    DurableHold hold;
    try {
      hold = asking.get();
    } catch (const Cancelled&) {
      return kSignalled + signal.value_or(0);
    } catch (const TimedOut&) {
      voice_.tell(fmt::format("'{}' was not acquired", args_.name));
      return signal ? kSignalled + *signal : args_.conflict_exit_code.value_or(kNotAcquired);
    } catch (const QueueFull& error) {
      voice_.warn(error.what());
      return args_.conflict_exit_code.value_or(kNotAcquired);
    }
    if (signal) {
      static_cast<void>(release(hold));
      return kSignalled + *signal;
    }
    if (!hold.valid()) {  // By the clock: the heartbeat may not have noticed yet.
      throw SessionLost(fmt::format(
          "the session that acquired '{}' was over before the command could begin", args_.name));
    }
    const auto acquired_at = Steady::now();
    voice_.tell(fmt::format("acquired '{}' with fence {}{}{} after {}", args_.name, hold.fence(),
                            hold.slots().empty() ? "" : ", slot ", slots_text(hold.slots()),
                            duration_text(acquired_at - asked_at)));
    const int code = run_command(args_, voice_, signals_, hold, *session_);
    if (code == kLeaseLost && !hold.valid()) {
      return code;
    }
    if (!release(hold)) {
      voice_.warn(
          session_->valid()
              ? fmt::format("'{}' was taken away before the command had ended: 'holdfast "
                            "locks history' says by whom",
                            args_.name)
              : fmt::format("the lease of '{}' was lost before the command had ended", args_.name));
      return kLeaseLost;
    }
    voice_.tell(fmt::format("released '{}' after {}", args_.name,
                            duration_text(Steady::now() - acquired_at)));
    return code;
  }

  /// False: it was lost before.
  bool release(DurableHold& hold) {
    if (!hold.valid()) {
      return false;
    }
    try {
      return sync_wait(pool_, hold.release());
    } catch (const SessionLost&) {
      return false;
    } catch (const Error& error) {
      voice_.warn(fmt::format("'{}' could not be released, and ends with its lease: {}", args_.name,
                              error.what()));
      return true;
    }
  }

  void close_session() {
    if (!session_->valid()) {
      return;  // Nobody waits for it.
    }
    try {
      sync_wait(pool_, session_->close());
    } catch (const Error& error) {
      voice_.tell(fmt::format("the session could not be closed, and ends with its lease: {}",
                              error.what()));
    }
  }

  const LockArgs& args_;
  const Voice& voice_;
  const Signals& signals_;
  std::unique_ptr<Store> store_;
  ThreadPool pool_;
  std::unique_ptr<Session> session_;
};

}  // namespace

int run_lock_command(Terminal& terminal, const LockArgs& args, const Signals& signals) {
  const Voice voice(terminal, args.verbose);
  return LockCommand(args, voice, signals).run();
}

}  // namespace holdfast::cli
