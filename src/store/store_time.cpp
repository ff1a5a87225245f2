// SPDX-License-Identifier: Apache-2.0
#include "store_time.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace holdfast::detail {

namespace {

std::int64_t unbounded_time_ns(const TimeRecord& record, TimePoint now) noexcept {
  return now.time_since_epoch().count() + record.offset_ns;
}

}  // namespace

StoreTime time_of(const TimeRecord& record, TimePoint now) noexcept {
  // It would rather stand still than go back.
  return StoreTime(Duration(std::max(unbounded_time_ns(record, now), record.high_water_ns)));
}

TimeRecord continued(TimeRecord record, TimePoint now, const std::string& boot_id) {
  if (record.boot_id != boot_id || unbounded_time_ns(record, now) < record.high_water_ns) {
    record.boot_id = boot_id;
    record.offset_ns = record.high_water_ns - now.time_since_epoch().count();
  }
  return record;
}

TimeRecord marked(TimeRecord record, TimePoint now) {
  record.high_water_ns = time_of(record, now).time_since_epoch().count();
  return record;
}

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace holdfast::detail
