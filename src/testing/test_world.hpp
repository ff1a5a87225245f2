// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/detail/check.hpp>
#include <holdfast/testing.hpp>

#include "run/call_step.hpp"
#include "store_copy.hpp"

namespace holdfast::detail {

/// What a `TestEngine` is made of: a disk, the time, and a process on it that may die and be
/// followed by another one.
class TestWorld {
 public:
  using Workflows = std::vector<testing::AnyWorkflow>;
  using Check = std::function<bool()>;
  using Act = std::function<void()>;
  using Explain = std::function<std::string()>;

  /// Throws `InvalidArgument`.
  TestWorld(Workflows workflows, const testing::TestOptions& options, StoreCopy beginning);
  /// As `world` is now.
  TestWorld(TestWorld& world, StoreCopy copy);
  TestWorld(const TestWorld&) = delete;
  TestWorld& operator=(const TestWorld&) = delete;
  ~TestWorld();

  [[nodiscard]] Engine& engine() noexcept;
  [[nodiscard]] Store& store() noexcept;
  [[nodiscard]] Executor& executor() noexcept;
  [[nodiscard]] VirtualWallClock& calendar() noexcept { return calendar_; }
  [[nodiscard]] StoreTime now() const { return StoreTime(clock_.now().time_since_epoch()); }

  /// For what takes no time.
  template <typename T>
  T ask(Task<T> task) {
    auto running = spawn(executor(), std::move(task));
    while (!running.ended() && run_one()) {
    }
    HOLDFAST_CHECK(running.ended(), "what takes no time waits for it");
    return running.get();
  }

  /// Lets everything happen, and time pass, until `done`. False: the process has died, and another
  /// one goes on. Throws `StuckRun`, with what `explain` says, if it will never be done. Otherwise
  /// than by `done`, `stop` is called before anything is taken away.
  [[nodiscard]] bool drive_until(const Check& done, const Act& stop, const Explain& explain);
  void skip(Duration time);

  void crash_at_commit(std::uint64_t commit, CrashOutcome outcome);
  void crash();
  [[nodiscard]] std::uint64_t crashes() const { return disk_->crash_count(); }

  void set_fake(std::string_view name, StepFake fake);
  void forbid_real_steps() { real_steps_forbidden_ = true; }
  [[nodiscard]] std::uint64_t calls(std::string_view step) const;
  [[nodiscard]] std::vector<std::string> unused_fakes() const;

  /// That nobody else in this world, or in one that it was copied from, has.
  [[nodiscard]] std::string next_request();
  void note(const std::string& text);
  [[nodiscard]] std::string trace() const;

 private:
  class HandDriven;
  struct Process;
  struct Fake {
    StepFake call;
    bool used = false;
  };

  void begin_process();
  void end_process();
  /// After the crash that was expected: another one begins.
  void revive();
  [[nodiscard]] bool has_died() const;
  bool run_one();
  /// These are false if the process has died.
  [[nodiscard]] bool drain();
  [[nodiscard]] bool sweep();
  [[nodiscard]] bool settle();
  [[nodiscard]] bool move_to(TimePoint target);
  /// When something is due, the session's own affairs aside. Nothing: never.
  [[nodiscard]] std::optional<TimePoint> next_moment();
  void check_no_mistake(const Act& stop);
  [[nodiscard]] Task<boost::json::value> call_step(std::uint64_t life, CalledStep called,
                                                   StepCode& code, StepContext& context);

  const Workflows workflows_;
  const testing::TestOptions options_;
  const std::string queue_;

  VirtualClock clock_;
  VirtualWallClock calendar_{clock_};
  VirtualClock session_clock_;  // The same time; apart, so that a renewal is no sign of life.
  const std::shared_ptr<MemoryDisk> disk_;
  std::uint64_t life_ = 0;  // Of processes, those of worlds that this is a copy of included.
  std::uint64_t requests_ = 0;

  std::map<std::string, std::shared_ptr<Fake>, std::less<>> fakes_;
  std::map<std::string, std::uint64_t, std::less<>> calls_;
  bool real_steps_forbidden_ = false;
  bool crash_expected_ = false;
  std::string mistake_;   // Of the test.
  std::string hopeless_;  // A step that was tried too often.
  StoreTime began_;
  std::deque<std::string> trace_;

  std::unique_ptr<Process> process_;
};

}  // namespace holdfast::detail
