// SPDX-License-Identifier: Apache-2.0
// A process that holds a durable lock is killed in the middle of its work. The next in line takes
// over when the lease has run out, with a greater fence; what the dead one had sent comes too late.
#include "takeover.hpp"

#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/gate_inspection.hpp>
#include <holdfast/gates.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>

#include "folder.hpp"
#include "process.hpp"

namespace examples {

namespace {

using namespace std::chrono_literals;

constexpr auto kLease = 1s;
constexpr std::string_view kLock = "payroll";

// --- What the processes do -----------------------------------------------------------------------

/// What they have to say goes through a pipe, as it would through a network.
void send(std::uint64_t fence, const std::string& entry) {
  std::cout << fence << ' ' << entry << std::endl;
}

void wait_to_be_told() {
  std::string line;
  std::getline(std::cin, line);
}

// [worker]
holdfast::Task<void> work(holdfast::Store& store, std::string name) {
  auto session = co_await holdfast::Session::open(store, {.ttl = kLease, .name = name});
  holdfast::Gates gates(*session);
  holdfast::DurableMutex payroll = gates.mutex(kLock);
  holdfast::DurableHold hold = co_await payroll.acquire();
  send(hold.fence(), name + " begins");
  wait_to_be_told();
  send(hold.fence(), name + " ends");
  wait_to_be_told();
  static_cast<void>(co_await hold.release());
  co_await session->close();
}
// [worker]

// --- What they do it to --------------------------------------------------------------------------

struct Message {
  std::uint64_t fence = 0;
  std::string entry;
};

Message parse(const std::string& line) {
  std::istringstream words(line);
  Message message;
  words >> message.fence >> std::ws;
  std::getline(words, message.entry);
  return message;
}

// [ledger]
/// What the lock protects. It believes in fences, not in clocks.
struct Ledger {
  bool write(std::uint64_t fence, std::string entry) {
    if (fence < greatest_fence) {
      return false;  // From a holder of before: another has the lock by now.
    }
    greatest_fence = fence;
    entries.push_back(std::move(entry));
    return true;
  }

  std::uint64_t greatest_fence = 0;
  std::vector<std::string> entries;
};
// [ledger]

// --- The play ------------------------------------------------------------------------------------

class Play {
 public:
  explicit Play(Stage& stage)
      : stage_(stage), store_(holdfast::open_store(folder_.url("locks.db"))) {}

  void run() {
    stage_.say(fmt::format("three processes want one lock, which outlives a dead holder by {} s",
                           kLease.count()));
    Process first = start("first");
    const Message begun = parse(first.line(stage_.stop()));
    tell_of_grant("first", first, begun);
    write(begun);
    Process second = start("second");
    until_waiting(1);
    Process third = start("third");
    until_waiting(2);
    tell("second and third wait in line");

    first.tell("go on");
    first.until_it_speaks(stage_.stop());
    // At the earliest: a renewal may come before the kill.
    const std::optional<holdfast::StoreTime> lease_ends = holder().expires_at;
    first.kill();
    const auto killed_at = Steady::now();
    tell("first is killed with -9; what it sent last is still on its way");

    const Message taken_over = parse(second.line(stage_.stop()));
    const auto waited = std::chrono::duration<double>(Steady::now() - killed_at);
    tell_of_grant("second", second, taken_over);
    const holdfast::StoreTime granted = holder().granted_at;
    stage_.check(fmt::format("the next in line took over after {:.1f} s, with a greater fence",
                             waited.count()),
                 taken_over.fence > begun.fence && holder().holder == "second");
    stage_.check("and not before the lease of the dead one had run out",
                 lease_ends && granted >= *lease_ends);
    write(taken_over);
    const bool late_write = write(parse(first.line(stage_.stop())));
    stage_.check("what the dead one had sent is refused, as its fence is lower", !late_write);

    finish(second);
    const Message last = parse(third.line(stage_.stop()));
    tell_of_grant("third", third, last);
    write(last);
    finish(third);
    const std::vector<std::string> expected{"first begins", "second begins", "second ends",
                                            "third begins", "third ends"};
    stage_.check("the ledger has one after the other, in the order of their fences",
                 last.fence > taken_over.fence && ledger_.entries == expected);
  }

 private:
  using Steady = std::chrono::steady_clock;

  Process start(const std::string& name) {
    return Process({std::string(kTakeoverPart), folder_.url("locks.db"), name});
  }

  void tell(std::string_view what) {
    const auto since = std::chrono::duration<double>(Steady::now() - began_);
    stage_.say(fmt::format("{:5.2f} s  {}", since.count(), what));
  }

  void tell_of_grant(std::string_view name, const Process& process, const Message& message) {
    tell(fmt::format("{} (process {}) has the lock, with fence {}", name, process.id(),
                     message.fence));
  }

  bool write(const Message& message) {
    const bool written = ledger_.write(message.fence, message.entry);
    tell(fmt::format("ledger: {}, fence {}: {}", message.entry, message.fence,
                     written ? "written" : "REFUSED"));
    return written;
  }

  void finish(Process& process) {
    process.tell("go on");
    write(parse(process.line(stage_.stop())));
    process.tell("let go");
  }

  holdfast::GateInfo look() {
    auto info = holdfast::sync_wait(pool_, holdfast::inspect_gate(*store_, kLock));
    return info ? *std::move(info) : holdfast::GateInfo{};
  }

  holdfast::GateHolderInfo holder() {
    const holdfast::GateInfo info = look();
    if (info.holders.size() != 1) {
      throw std::runtime_error("nobody holds the lock, or more than one does");
    }
    return info.holders.front();
  }

  void until_waiting(std::uint64_t count) {
    const auto give_up_at = Steady::now() + 30s;
    while (look().waiter_count < count) {
      if (stage_.stop().stop_requested()) {
        throw holdfast::Cancelled("the scenario was asked to end");
      }
      if (Steady::now() > give_up_at) {
        throw std::runtime_error("a process that was started does not come to wait");
      }
      std::this_thread::sleep_for(5ms);
    }
  }

  Stage& stage_;
  Folder folder_;
  holdfast::ThreadPool pool_{1};
  std::unique_ptr<holdfast::Store> store_;
  Ledger ledger_;
  Steady::time_point began_ = Steady::now();
};

}  // namespace

int play_takeover_part(const std::string& store_url, const std::string& name) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // Nobody is left behind, should the play be killed.
  const auto store = holdfast::open_store(store_url);
  holdfast::ThreadPool pool(1);
  holdfast::sync_wait(pool, work(*store, name));
  return 0;
}

void takeover(Stage& stage) { Play(stage).run(); }

}  // namespace examples
