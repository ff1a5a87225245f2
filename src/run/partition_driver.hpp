// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/session.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/store.hpp>

#include "run_keys.hpp"
#include "run_machine.hpp"

namespace holdfast::detail {

/// What the drivers of an engine share.
struct DriverWorld {
  Store& store;
  Session& session;
  Executor& executor;
  Executor& steps;
  /// The code of a workflow; null: it is not known here.
  std::function<const WorkflowCode*(const std::string& type)> code_of;
};

/// Drives the runs of one partition, for as long as this process owns it: every commit is on
/// condition of the epoch in which it took it.
///
/// What happens to a run is put into its mailbox, and one task at a time empties that.
class PartitionDriver : public std::enable_shared_from_this<PartitionDriver> {
 public:
  PartitionDriver(DriverWorld world, PartitionKeys keys);
  PartitionDriver(const PartitionDriver&) = delete;
  PartitionDriver& operator=(const PartitionDriver&) = delete;

  /// Takes the partition if no living process has it, and goes on with its runs. False: another has
  /// it.
  [[nodiscard]] Task<bool> take();
  [[nodiscard]] bool is_owner() const noexcept { return epoch_ != 0; }

  /// A new run, durable when it returns.
  [[nodiscard]] Task<void> start(std::string uid, std::string type, boost::json::value input);

  /// Ends what it does; runs stand where they stand.
  void close();

  [[nodiscard]] const PartitionKeys& keys() const noexcept { return keys_; }

 private:
  /// A run in memory.
  struct LiveRun {
    std::string uid;
    record::RunHead head;
    Version head_version = 0;
    std::unique_ptr<RunMachine> machine;
    std::uint64_t next_row = 0;
    std::set<std::uint64_t> steps;  ///< Under way.

    // Under the driver's mutex.
    std::vector<record::RunEvent> events;  ///< To come.
    std::vector<std::string> consumed;     ///< The rows that they are from.
    bool driven = false;
  };
  using Run = std::shared_ptr<LiveRun>;

  [[nodiscard]] Task<void> recover();
  [[nodiscard]] Task<Run> load(std::string uid, std::vector<BegunStep>& open_steps);
  [[nodiscard]] Task<Run> find_or_load(std::string uid);
  void deliver(const Run& run, record::RunEvent event, std::string consumed);
  [[nodiscard]] Task<void> drive(Run run);
  struct Mail {
    std::vector<record::RunEvent> events;
    std::vector<std::string> consumed;
  };
  [[nodiscard]] std::optional<Mail> take_mail(LiveRun& run);
  [[nodiscard]] Task<bool> activate(Run run, Mail mail);
  [[nodiscard]] Batch batch_of(LiveRun& run, const Activated& activated, StoreTime now);
  void begin_steps(const Run& run, std::vector<BegunStep> steps);
  [[nodiscard]] Task<void> run_step(Run run, std::shared_ptr<BegunStep> step);
  [[nodiscard]] Task<void> watch_timers();
  [[nodiscard]] Task<std::optional<StoreTime>> fire_due_timers();
  [[nodiscard]] Task<void> watch_inbox();
  [[nodiscard]] Task<void> take_messages();
  void run_in_background(Executor& executor, Task<void> task);
  void lose();

  DriverWorld world_;
  const PartitionKeys keys_;
  Version epoch_ = 0;
  std::string owner_row_;

  Mutex loading_;  // One at a time, so that none is there twice.

  std::mutex mutex_;
  std::map<std::string, Run, std::less<>> runs_;
  std::set<std::string, std::less<>> taken_;  // Messages and timers that are on their way.

  bool closed_ = false;
  std::list<Spawned<void>> background_;
};

}  // namespace holdfast::detail
