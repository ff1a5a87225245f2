// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/memory_store.hpp>
#include <holdfast/wall_clock.hpp>

#include "errand.hpp"
#include "gate_watch.hpp"
#include "mortal_process.hpp"
#include "mortal_store.hpp"
#include "play.hpp"
#include "schedule_watch.hpp"
#include "tests/crash/dice.hpp"

namespace holdfast::testing {

/// Random programs as runs, in processes that are killed, stalled and stopped, on a disk that loses
/// its power, for clients that insist; then a while in which nothing goes wrong, in which all has
/// to come to its end.
class RunSimulation {
 public:
  RunSimulation(std::uint64_t seed, Tally& tally);
  RunSimulation(const RunSimulation&) = delete;
  RunSimulation& operator=(const RunSimulation&) = delete;
  ~RunSimulation();

  /// What is wrong, line by line.
  [[nodiscard]] std::vector<std::string> run();
  /// The same for the same seed.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

 private:
  [[nodiscard]] Duration between(Duration least, Duration most);
  void make_orders();
  void make_errands(const Order& order);
  void make_timetables();
  void make_errands(const Timetable& timetable);
  void make_gatherings();
  void make_errands(Gathering& gathering);
  void set_faults();

  void add_process(const std::string& queue, bool drives);
  void end_process(MortalProcess& process);
  void keep_processes();
  void strike();
  void cut_power();

  void send_errands();
  [[nodiscard]] bool may_begin(const Errand& errand) const;
  void begin_errand(Errand& errand);
  [[nodiscard]] static Task<void> attempt(Engine& engine, const Errand& errand);
  void finish_errand(Errand& errand);
  void take_from(MortalProcess& process);
  [[nodiscard]] bool all_is_done();

  /// Until then, whatever comes.
  void go_on_until(TimePoint end);
  [[nodiscard]] bool run_one();
  void calm_down();
  [[nodiscard]] bool finish();
  [[nodiscard]] std::vector<std::string> look_at_the_end();

  Tally& tally_;
  Dice dice_;
  Outside world_;
  VirtualClock clock_;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>(clock_);
  std::map<std::string, std::string> owners_;
  VirtualWallClock calendar_{clock_, kFirstDay};
  ScheduleWatch schedules_{disk_};
  GateWatch gates_{disk_, tally_};
  std::deque<Order> orders_;
  std::deque<Gathering> gatherings_;
  std::deque<Errand> errands_;
  std::vector<std::unique_ptr<MortalProcess>> processes_;
  std::vector<std::string> faults_;

  int next_label_ = 1;
  std::size_t drivers_wanted_ = 2;
  double busy_chance_ = 0;
  bool is_calm_ = false;
  TimePoint calm_since_{};
  bool power_is_cut_ = false;
  TimePoint next_strike_{};
  TimePoint next_process_{};
  std::uint64_t digest_ = 0;
};

}  // namespace holdfast::testing
