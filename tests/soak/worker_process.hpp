// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/clock.hpp>

#include "tests/soak/report.hpp"

namespace holdfast::testing {

/// A soak_*_worker, as the one who torments it sees it.
class WorkerProcess {
 public:
  WorkerProcess(std::string program, std::vector<std::string> arguments);
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  /// It has ended, or is killed.
  ~WorkerProcess();

  /// To be polled.
  [[nodiscard]] int reports_fd() const noexcept { return reports_fd_; }
  /// What has come, at least one, or nothing at its end.
  [[nodiscard]] std::vector<Report> read_reports();

  void kill();
  void stop(TimePoint until);
  void go_on();
  [[nodiscard]] bool killed() const noexcept { return killed_; }
  [[nodiscard]] const std::optional<TimePoint>& stopped_until() const noexcept {
    return stopped_until_;
  }
  /// Asks it to end in order.
  void finish();
  /// After its last report. True: as it was asked to, or was made to.
  [[nodiscard]] bool ended_well();

 private:
  pid_t pid_ = -1;
  int end_fd_ = -1;
  int reports_fd_ = -1;
  std::string read_ahead_;
  bool killed_ = false;
  std::optional<TimePoint> stopped_until_;
};

}  // namespace holdfast::testing
