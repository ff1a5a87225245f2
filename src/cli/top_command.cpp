// SPDX-License-Identifier: Apache-2.0
#include "top_command.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/this_task.hpp>

#include "escape.hpp"
#include "exit_code.hpp"
#include "interrupt.hpp"
#include "lock_facts.hpp"
#include "raw_terminal.hpp"
#include "table.hpp"
#include "top_view.hpp"
#include "wake.hpp"

namespace holdfast::cli {

namespace {

using Steady = std::chrono::steady_clock;

/// However much happens, the locks are not read more often than this.
constexpr auto kReadEvery = std::chrono::milliseconds(100);
/// Ages are shown in seconds.
constexpr auto kTick = std::chrono::seconds(1);

/// Readable when the terminal has another size. Make it before any thread.
class Resizes {
 public:
  Resizes() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd_ < 0) {
      throw std::system_error(errno, std::generic_category(), "signalfd");
    }
  }
  Resizes(const Resizes&) = delete;
  Resizes& operator=(const Resizes&) = delete;
  ~Resizes() { close(fd_); }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  void take() const noexcept {
    signalfd_siginfo info{};
    while (read(fd_, &info, sizeof info) == sizeof info) {
    }
  }

 private:
  int fd_ = -1;
};

/// Wakes `changed` when something of the store has changed.
Task<void> watch_locks(Store& store, const Wake& changed) {
  Watch watch = store.watch("gate/");
  for (;;) {
    co_await watch.changed();
    changed.wake();
    co_await this_task::sleep_for(kReadEvery);
  }
}

/// `read_locks`, unless the store is busy: then why.
Task<std::string> read_into(Store& store, Locks& locks, Runs known) {
  std::string complaint;
  try {
    locks = co_await read_locks(store, std::move(known));
  } catch (const StoreBusy& error) {
    complaint = error.what();
  }
  co_return complaint;
}

class Top {
 public:
  Top(Terminal& terminal, const Signals& signals, const Resizes& resizes, Store& store)
      : terminal_(terminal),
        signals_(signals),
        resizes_(resizes),
        store_(store),
        pool_(1, store.clock()),
        view_(redacted_url(store.url())) {}

  /// The signal that ended it, or nothing.
  std::optional<int> run() {
    RawTerminal screen(terminal_, STDIN_FILENO);
    auto watching = spawn(pool_, watch_locks(store_, changed_));
    std::optional<int> signal;
    try {
      signal = run_on(screen);
    } catch (...) {
      end(watching);
      throw;
    }
    end(watching);
    return signal;
  }

 private:
  static void end(Spawned<void>& watching) {
    watching.request_stop();
    try {
      watching.get();
    } catch (const Error&) {
      // It was stopped, or whoever read the store has met the same.
    }
  }

  std::optional<int> run_on(RawTerminal& screen) {
    auto read_at = Steady::time_point{};
    bool stale = true;
    while (!quit_ && terminal_.error() == 0) {
      const auto now = Steady::now();
      if (now >= read_at + kTick || (stale && now >= read_at + kReadEvery)) {
        read();
        read_at = Steady::now();
        stale = false;
      }
      screen.draw(view_.lines(size()));
      wait_until(read_at + (stale ? Steady::duration(kReadEvery) : Steady::duration(kTick)));
      stale = changed_.take() || stale;
      resizes_.take();
      while (const auto signal = signals_.read()) {
        if (signal->number != SIGCHLD) {
          return signal->number;
        }
      }
    }
    return std::nullopt;
  }

  void read() {
    Locks locks;
    std::string complaint = sync_wait(pool_, read_into(store_, locks, known_));
    if (complaint.empty()) {
      known_ = locks.runs;
      view_.show(std::move(locks));
    } else {
      view_.complain(one_line(complaint));
    }
  }

  [[nodiscard]] ScreenSize size() const { return {terminal_.rows(), terminal_.columns()}; }

  void wait_until(Steady::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    std::array<pollfd, 4> all{pollfd{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                              pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                              pollfd{.fd = resizes_.fd(), .events = POLLIN, .revents = 0},
                              pollfd{.fd = changed_.fd(), .events = POLLIN, .revents = 0}};
    const int ready =
        poll(all.data(), all.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    if (ready > 0 && all.front().revents != 0) {
      press_keys();
    }
  }

  std::string read_keys() {
    std::array<char, 256> buffer{};
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    quit_ = count == 0 || (count < 0 && errno != EINTR);  // The terminal has gone.
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

  /// An arrow begins as the escape key does; a slow line may part it.
  static bool more_comes() {
    constexpr int kPatienceMs = 30;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return poll(&input, 1, kPatienceMs) > 0;
  }

  void press_keys() {
    std::string typed = read_keys();
    if (typed == "\x1b" && more_comes()) {
      typed += read_keys();
    }
    std::string_view bytes = typed;
    while (!bytes.empty() && !quit_) {
      quit_ = !view_.press(take_key(bytes), size());
    }
  }

  Terminal& terminal_;
  const Signals& signals_;
  const Resizes& resizes_;
  Store& store_;
  ThreadPool pool_;
  TopView view_;
  Runs known_;  // Of the last time: what a run is does not change.
  Wake changed_;
  bool quit_ = false;
};

void print_once(Terminal& terminal, Store& store) {
  ThreadPool pool(1, store.clock());
  const Locks locks = sync_wait(pool, read_locks(store));
  if (locks.gates.empty()) {
    terminal.line("no locks");
  } else {
    print_table(terminal, top_rows(locks));
  }
}

}  // namespace

int run_top_command(Terminal& terminal, const TopArgs& args, const Signals& signals) {
  const bool live = !args.once && terminal.traits().live && isatty(STDIN_FILENO) == 1;
  if (!live) {
    signals.unblock();
  }
  const Resizes resizes;
  std::optional<int> signal;
  {
    const std::unique_ptr<Store> store = existing_store(args.url);
    if (store == nullptr) {
      terminal.line("no locks");
    } else if (live) {
      signal = Top(terminal, signals, resizes, *store).run();
    } else {
      print_once(terminal, *store);
    }
  }
  if (signal) {
    die_of(*signal);
  }
  return kOk;
}

}  // namespace holdfast::cli
