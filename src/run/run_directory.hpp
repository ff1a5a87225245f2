// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/engine.hpp>
#include <holdfast/store.hpp>

#include "run_place.hpp"

namespace holdfast::detail {

/// A run as it stands in the store.
struct RunRow {
  RunPlace place;
  record::RunHead head;
  Version version = 0;
};

/// The run that has an id, or had it last. Nothing: there is none.
[[nodiscard]] Task<std::optional<RunRow>> find_run(Store& store, std::string id,
                                                   Read read = Read::kDurable);
[[nodiscard]] Task<std::optional<RunRow>> read_run(Store& store, RunPlace place,
                                                   Read read = Read::kDurable);

/// The run to which the row of a name leads: that of an id, or of the key of a start. The batch
/// gets the condition that it does, or that there is no such row, still.
[[nodiscard]] Task<std::optional<RunRow>> find_named(Store& store, std::string name_key,
                                                     Batch& batch);

/// All rows of its journal, those in its head included.
[[nodiscard]] Task<std::vector<record::Activation>> read_journal(Store& store, RunRow run);

/// Throws `NoSuchRun`.
[[nodiscard]] Task<RecordedRun> record_run(Store& store, std::string id);

[[nodiscard]] Task<RunInfo> describe_run(Store& store, RunRow run);
/// With its journal, if that has been read.
[[nodiscard]] Task<RunInfo> describe_run(Store& store, const RunRow& run,
                                         const std::vector<record::Activation>& journal);

/// `RunFilter`, kept.
struct RunSearch {
  explicit RunSearch(const RunFilter& filter);

  std::string type;
  std::string queue;
  std::optional<RunState> state;
  std::string parent_id;
  std::optional<std::pair<std::string, std::string>> attribute;
  std::string after;
  std::size_t limit;
};
[[nodiscard]] Task<RunPage> list_runs(Store& store, RunSearch search);

/// Forgets those that ended before, and answers that nobody waits for; how many runs.
[[nodiscard]] Task<std::size_t> purge_runs(Store& store, StoreTime before);

}  // namespace holdfast::detail
