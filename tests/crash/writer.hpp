// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tests/crash/actors.hpp"

namespace holdfast::testing {

/// Batches that the program crash_writer has in flight at a time.
inline constexpr std::uint64_t kWriterTasks = 4;

/// What it writes to its output for each batch once that is durable.
struct Ack {
  std::uint64_t number;
  Version version;
};

inline std::string writer_marker(std::uint64_t writer, std::uint64_t number) {
  return "batch/" + std::to_string(writer) + "/" + std::to_string(1'000'000 + number);
}

/// Batch `number` of a writer, but for the marker, which a ledger adds.
inline Batch writer_batch(std::uint64_t writer, std::uint64_t number) {
  Dice dice(writer << 32U | number);
  Batch batch = random_writes(dice);
  batch.require_absent(writer_marker(writer, number));
  return batch;
}

}  // namespace holdfast::testing
