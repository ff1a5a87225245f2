// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/history.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace holdfast::testing {

namespace {

std::string place_of(Resource resource, std::uint64_t fence) {
  std::string text("resource ");
  text.append(std::to_string(static_cast<int>(resource)));
  return text.append(", fence ").append(std::to_string(fence)).append(": ");
}

}  // namespace

History::Holds& History::holds_of(Resource resource) {
  const Resource lock = resource == Resource::kInStore ? Resource::kMutex : resource;
  return holds_.at(static_cast<std::size_t>(lock));
}

History::HoldId History::id_of(std::int64_t process, const Report& report) {
  HoldId id{.fence = report.fence};
  if (report.shared) {
    id.reader_process = process;
    id.reader_task = report.task;
  }
  return id;
}

void History::add(std::int64_t process, const Report& report) {
  using Kind = Report::Kind;
  ++counts_.at(static_cast<std::size_t>(report.kind));
  switch (report.kind) {
    case Kind::kGranted: {
      const HoldTold told{
          .shared = report.shared, .granted_ns = report.at_ns, .ended_ns = report.valid_until_ns};
      if (!holds_of(report.resource).emplace(id_of(process, report), told).second) {
        faults_.push_back(place_of(report.resource, report.fence) + "granted twice");
      }
      break;
    }
    case Kind::kReleasing: {
      HoldTold& hold = holds_of(report.resource)[id_of(process, report)];
      hold.ended_ns = std::min(report.at_ns, report.valid_until_ns);
      hold.released = true;
      break;
    }
    case Kind::kAccepted:
      accepted_.at(static_cast<std::size_t>(report.resource)).emplace(report.fence, report.value);
      break;
    case Kind::kRefused:
      if (report.at_ns < report.valid_until_ns) {
        ++refused_while_valid_;
        faults_.push_back(place_of(report.resource, report.fence) +
                          "refused, though its session was valid, in process " +
                          std::to_string(process));
      }
      break;
    case Kind::kUnknown:
      ++unknown_[process];
      break;
    default:
      break;
  }
}

void History::compare(Resource resource, std::uint64_t value, const std::vector<Increment>& found) {
  auto told = accepted_.at(static_cast<std::size_t>(resource));
  std::map<std::pair<std::int64_t, std::int64_t>, int> in_flight;
  std::uint64_t expected = 0;
  for (const Increment& increment : found) {
    const std::string place = place_of(resource, increment.fence);
    if (increment.value != ++expected) {
      std::string text = place + "the increment to ";
      text.append(std::to_string(increment.value)).append(" is number ");
      faults_.push_back(text.append(std::to_string(expected)).append(" by the fences"));
    }
    if (told.erase(increment.fence) > 0) {
      continue;
    }
    // Done, but killed before it was told: at most one for each task of the process.
    const Doer& doer = increment.doer;
    ++untold_;
    const int untold_max = unknown_[doer.process] + (killed_.contains(doer.process) ? 1 : 0);
    if (++in_flight[{doer.process, doer.task}] > untold_max) {
      faults_.push_back(place + "an increment that nobody told of");
    }
  }
  for (const auto& [fence, lost] : told) {
    faults_.push_back(place_of(resource, fence) + "the increment is lost");
  }
  if (value != found.size()) {
    faults_.push_back(place_of(resource, 0) + "the counter is not the number of its increments");
  }
}

void History::look_for_overlaps() {
  for (const Holds& holds : holds_) {
    look_for_overlaps(holds);
  }
}

void History::look_for_overlaps(const Holds& holds) {
  std::int64_t writer_ended_ns = 0;
  std::int64_t anybody_ended_ns = 0;
  bool exclusive_left = false;
  for (const auto& [id, hold] : holds) {
    if (hold.granted_ns == 0) {
      faults_.push_back("fence " + std::to_string(id.fence) + ": released, but never granted");
    }
    if (hold.granted_ns < (hold.shared ? writer_ended_ns : anybody_ended_ns)) {
      faults_.push_back("fence " + std::to_string(id.fence) +
                        ": granted while one of before had reason to believe that it holds");
    }
    if (exclusive_left) {
      ++takeovers_;
    }
    exclusive_left = !hold.shared && !hold.released;
    anybody_ended_ns = std::max(anybody_ended_ns, hold.ended_ns);
    if (!hold.shared) {
      writer_ended_ns = std::max(writer_ended_ns, hold.ended_ns);
    }
  }
}

}  // namespace holdfast::testing
