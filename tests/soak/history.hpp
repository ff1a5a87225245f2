// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/soak/guarded_counters.hpp"
#include "tests/soak/report.hpp"

namespace holdfast::testing {

/// All that the workers told, and what can be wrong with it.
class History {
 public:
  void add(std::int64_t process, const Report& report);
  void killed(std::int64_t process) { killed_.insert(process); }

  [[nodiscard]] std::uint64_t count(Report::Kind kind) const {
    return counts_.at(static_cast<std::size_t>(kind));
  }
  /// Of holders that did not let go.
  [[nodiscard]] std::uint64_t takeovers() const { return takeovers_; }
  /// Increments that are there, and whose doer was killed before it could tell.
  [[nodiscard]] std::uint64_t untold() const { return untold_; }
  /// Refused though it was over before the end of what the holder could count on.
  [[nodiscard]] std::uint64_t refused_while_valid() const { return refused_while_valid_; }

  /// Whether `found`, which is what is in a resource, is what was told, all in order of the fences.
  void compare(Resource resource, std::uint64_t value, const std::vector<Increment>& found);
  /// Whether anybody was in while another one had reason to believe that it was.
  void look_for_overlaps();

  [[nodiscard]] const std::vector<std::string>& faults() const { return faults_; }

 private:
  struct HoldTold {
    bool shared = false;
    std::int64_t granted_ns = 0;  ///< At the latest.
    std::int64_t ended_ns = 0;    ///< At the earliest.
    bool released = false;
  };
  /// In the order of the fences. Readers who are let in together have one between them; for the
  /// others who it is does not count, so that a fence which two of them have is noticed.
  struct HoldId {
    std::uint64_t fence = 0;
    std::int64_t reader_process = 0;
    std::uint8_t reader_task = 0;
    auto operator<=>(const HoldId&) const = default;
  };
  using Holds = std::map<HoldId, HoldTold>;

  [[nodiscard]] static HoldId id_of(std::int64_t process, const Report& report);
  /// Resources behind one lock are one here.
  [[nodiscard]] Holds& holds_of(Resource resource);
  void look_for_overlaps(const Holds& holds);

  std::array<std::uint64_t, kReportKinds> counts_{};
  std::array<Holds, kResources> holds_;
  std::array<std::map<std::uint64_t, std::uint64_t>, kResources> accepted_;
  std::set<std::int64_t> killed_;
  std::map<std::int64_t, int> unknown_;  ///< Outcomes, by process.
  std::uint64_t takeovers_ = 0;
  std::uint64_t untold_ = 0;
  std::uint64_t refused_while_valid_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace holdfast::testing
