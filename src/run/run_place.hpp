// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <run.pb.h>

#include <holdfast/store.hpp>

namespace holdfast::detail {

/// Into how many partitions the runs of a queue fall.
inline constexpr std::uint32_t kPartitionsPerQueue = 16;
inline constexpr std::string_view kDefaultQueue = "default";
/// Of ids, queues and keys.
inline constexpr std::size_t kRunNameBytesMax = 255;

/// Where a run is. Its uid is its own for ever, while its id may be given to another one later.
struct RunPlace {
  std::string queue{kDefaultQueue};
  std::uint32_t partition = 0;
  std::string uid;

  bool operator==(const RunPlace&) const = default;
};

[[nodiscard]] record::RunPlace record_of(const RunPlace& place);
[[nodiscard]] RunPlace place_of(const record::RunPlace& record);

/// Sorted by the time at which it was made; `count` keeps those apart, and in order, that one
/// process makes in one moment.
[[nodiscard]] std::string new_uid(StoreTime now, std::uint32_t count, std::uint64_t random);

/// The id of a run that was given none: it says where the run is.
[[nodiscard]] std::string id_of_place(const RunPlace& place);
/// The place that such an id says; nothing if it is another one.
[[nodiscard]] std::optional<RunPlace> place_in_id(std::string_view id);

/// The uid of the child that is operation `operation` of a run.
[[nodiscard]] std::string child_uid(std::string_view parent, std::uint64_t operation);

/// Always the same for a uid.
[[nodiscard]] std::uint32_t partition_for(std::string_view uid);

}  // namespace holdfast::detail
