// SPDX-License-Identifier: Apache-2.0
// Reminders sleep for weeks. The process that knew them ends, nobody is there for a while, another
// one comes. On a virtual clock a month takes no time.
#include <boost/describe/class.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <holdfast/engine.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/spawn.hpp>

namespace {

using holdfast::Context;
using holdfast::Task;
using namespace std::chrono_literals;

constexpr auto kDay = 24h;

holdfast::VirtualClock world_clock;
int mails_sent = 0;

long long today() { return world_clock.now().time_since_epoch() / std::chrono::nanoseconds(kDay); }

void send_mail(const std::string& text) {
  ++mails_sent;
  std::printf("day %2lld: mail: %s\n", today(), text.c_str());
}

// [remind]
struct Reminder {
  std::string text;
  std::int64_t in_days = 0;
};
BOOST_DESCRIBE_STRUCT(Reminder, (), (text, in_days))

Task<void> remind(Context& ctx, Reminder reminder) {
  co_await ctx.sleep(reminder.in_days * kDay);  // Costs a row in the store, and no memory.
  auto mail = ctx.run("mail", [&] { send_mail(reminder.text); });
  co_await mail;
}
const auto kReminder = holdfast::workflow("remind", remind);
// [remind]

/// One process of one thread, on virtual time.
class Process {
 public:
  explicit Process(std::shared_ptr<holdfast::MemoryDisk> disk)
      : executor_(world_clock), store_(holdfast::open_memory_store(std::move(disk))) {
    session_ = holdfast::sync_wait(
        executor_, holdfast::Session::open(*store_, {.ttl = 1h, .executor = &executor_}));
    engine_.emplace(*session_, holdfast::EngineOptions{.executor = &executor_});
    engine_->add(kReminder);
    holdfast::sync_wait(executor_, engine_->begin());
    std::printf("day %2lld: a process begins\n", today());
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// As after a kill: nothing is handed over, nothing is said.
  ~Process() {
    engine_.reset();
    session_.reset();
    executor_.drain();
    std::printf("day %2lld: it is killed\n", today());
  }

  void start(const Reminder& reminder) {
    static_cast<void>(holdfast::sync_wait(executor_, engine_->start(kReminder, reminder)));
  }
  void live_for(holdfast::Duration time) {
    const holdfast::TimePoint end = world_clock.now() + time;
    executor_.drain();
    while (world_clock.next_due().value_or(end) < end) {
      world_clock.advance_to_next();
      executor_.drain();
    }
    world_clock.advance(end - world_clock.now());
    executor_.drain();
  }

 private:
  holdfast::ManualExecutor executor_;
  std::unique_ptr<holdfast::Store> store_;
  std::unique_ptr<holdfast::Session> session_;
  std::optional<holdfast::Engine> engine_;
};

void live() {
  const auto disk = std::make_shared<holdfast::MemoryDisk>(world_clock);
  {
    Process first(disk);
    first.start({.text = "pay the rent", .in_days = 30});
    first.start({.text = "water the plants", .in_days = 15});
    first.live_for(10 * kDay);
  }
  world_clock.advance(10 * kDay);  // Nobody is there when the plants are due: they come late, once.
  Process second(disk);
  second.live_for(20 * kDay);
}

}  // namespace

int main() {
  try {
    live();
    std::printf("%d mails for 2 reminders\n", mails_sent);
    return mails_sent == 2 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
