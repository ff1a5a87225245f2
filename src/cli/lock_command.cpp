// SPDX-License-Identifier: Apache-2.0
#include "lock_command.hpp"

#include <poll.h>
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
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>

#include "child.hpp"
#include "child_environment.hpp"
#include "duration.hpp"
#include "escape.hpp"
#include "exit_code.hpp"
#include "host_name.hpp"
#include "lock_asker.hpp"
#include "own_store.hpp"
#include "voice.hpp"
#include "wake.hpp"

namespace holdfast::cli {

namespace {

using Steady = std::chrono::steady_clock;

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

// --- Asking --------------------------------------------------------------------------------------

/// "backup.sh:4711@db1".
std::string holder_name(const std::string& command) {
  constexpr std::size_t kPartMax = 64;
  const std::string file = one_line(std::filesystem::path(command).filename().string());
  return fmt::format("{}:{}@{}", file.substr(0, kPartMax), getpid(), host_name());
}

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
        fmt::format("the lease of {} was lost: others may hold {} now; ", names_of(args_.locks),
                    args_.locks.size() == 1 ? "it" : "them");
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
                const std::vector<std::string>& environment, const std::stop_token& lost) {
  std::optional<Child> child;
  try {
    child.emplace(args.command, environment, signals.mask_before());
  } catch (const std::system_error& error) {
    voice.warn(fmt::format("'{}' cannot be run: {}", args.command.front(), error.code().message()));
    return error.code() == std::errc::no_such_file_or_directory ? kNotFound : kNotExecutable;
  }
  return Supervisor(args, voice, *child).run(signals, lost);
}

// --- From beginning to end -----------------------------------------------------------------------

class LockCommand {
 public:
  LockCommand(const LockArgs& args, const Voice& voice, const Signals& signals)
      : args_(args),
        voice_(voice),
        signals_(signals),
        names_(names_of(args.locks)),
        ancestors_(ancestors_of_environment()),
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
    LockAsker asker(args_, *session_, gates, ancestors_, voice_);
    auto asking = spawn(pool_, asker.ask(ended));
    const std::optional<int> signal = signal_before(ended, signals_);
    if (signal) {
      signals_.unblock();  // A second one does not wait for the store.
      asking.request_stop();
    }
    std::vector<DurableHold> holds;
    try {
      holds = asking.get();
    } catch (const Cancelled&) {
      return kSignalled + signal.value_or(0);
    } catch (const TimedOut&) {
      voice_.tell(
          fmt::format("{} {} not acquired", names_, args_.locks.size() == 1 ? "was" : "were"));
      return signal ? kSignalled + *signal : args_.conflict_exit_code.value_or(kNotAcquired);
    } catch (const QueueFull& error) {
      voice_.warn(error.what());
      return args_.conflict_exit_code.value_or(kNotAcquired);
    }
    if (signal) {
      static_cast<void>(release(holds));
      return kSignalled + *signal;
    }
    if (!session_->valid()) {  // By the clock: the heartbeat may not have noticed yet.
      throw SessionLost(fmt::format(
          "the session that acquired {} was over before the command could begin", names_));
    }
    tell_acquired(holds, Steady::now() - asked_at);
    const auto acquired_at = Steady::now();
    const int code =
        run_command(args_, voice_, signals_, environment_for(holds, *session_, ancestors_),
                    session_->lost_token());
    if (code == kLeaseLost && !session_->valid()) {
      return code;
    }
    if (!release(holds)) {
      return kLeaseLost;
    }
    voice_.tell(
        fmt::format("released {} after {}", names_, duration_text(Steady::now() - acquired_at)));
    return code;
  }

  void tell_acquired(const std::vector<DurableHold>& holds, Duration waited) const {
    for (const DurableHold& hold : holds) {
      voice_.tell(fmt::format("acquired '{}' with fence {}{}{} after {}", hold.name(), hold.fence(),
                              hold.slots().empty() ? "" : ", slot ", slots_text(hold.slots()),
                              duration_text(waited)));
    }
  }

  /// False, and told: one of them was over before.
  bool release(std::vector<DurableHold>& holds) {
    bool all = true;
    for (DurableHold& hold : holds) {
      const std::string name = hold.name();
      if (!release(hold)) {
        voice_.warn(
            session_->valid()
                ? fmt::format("'{}' was taken away before the command had ended: 'holdfast "
                              "locks history' says by whom",
                              name)
                : fmt::format("the lease of '{}' was lost before the command had ended", name));
        all = false;
      }
    }
    return all;
  }

  /// False: it was lost before.
  bool release(DurableHold& hold) {
    if (!session_->valid()) {
      return false;
    }
    const std::string name = hold.name();
    try {
      return sync_wait(pool_, hold.release());
    } catch (const SessionLost&) {
      return false;
    } catch (const Error& error) {
      voice_.warn(fmt::format("'{}' could not be released, and ends with its lease: {}", name,
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
  std::string names_;
  std::vector<std::string> ancestors_;
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
