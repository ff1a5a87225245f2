// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <run.pb.h>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/engine.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/store_error.hpp>

#include "run_machine.hpp"
#include "run_place.hpp"
#include "store/record_in.hpp"

namespace holdfast::detail {

/// The record of a run in a row; see `record_in`.
template <class Record>
[[nodiscard]] Record read_row(const Entry& row, const char* what) {
  return record_in<Record>(row, what, kRunFormat);
}

[[nodiscard]] inline record::RunHead read_run_head(const Entry& row) {
  return read_row<record::RunHead>(row, "the run");
}

[[nodiscard]] inline bool has_ended(const record::RunHead& head) noexcept {
  return head.state() != record::RunHead::RUNNING;
}

/// By when a run has to end that begins now; zero: whenever.
[[nodiscard]] std::int64_t deadline_of(const record::RunHead& head) noexcept;

/// Children that were not begun, as their ids were taken: the row holds how the waits for them end.
[[nodiscard]] std::unordered_set<std::uint64_t> refused_children(const record::Activation& row);
/// `type` is that of the run that goes on.
[[nodiscard]] RunExists run_exists(const std::string& id, const std::string& type);

/// The rows that say which run has a name, and what was answered.
[[nodiscard]] std::string name_row(const RunPlace& place);
[[nodiscard]] std::string reply_row(const boost::json::value& value,
                                    const std::exception_ptr& error);

/// The id of the run at `place`.
[[nodiscard]] std::string id_of(const record::RunHead& head, const RunPlace& place);
/// The actors at gates that cannot go on while the run waits: itself, those as which it holds
/// something, and those who wait for its end.
[[nodiscard]] std::vector<std::string> run_actors(const record::RunHead& head,
                                                  std::string_view uid);
/// Under which the cells are that it shares.
[[nodiscard]] std::string root_uid_of(const record::RunHead& head, const RunPlace& place);
/// When it was started, as its code sees it: a reset does not change that.
[[nodiscard]] StoreTime seen_start_of(const record::RunHead& head) noexcept;
[[nodiscard]] RunInfo info_of(const record::RunHead& head, const RunPlace& place);
/// What a run that ended other than well ended of.
[[nodiscard]] std::string ending_text(const RunInfo& info);

[[nodiscard]] inline StoreTime time_of(std::int64_t ns) noexcept { return StoreTime(Duration(ns)); }
[[nodiscard]] inline std::int64_t ns_of(StoreTime time) noexcept {
  return time.time_since_epoch().count();
}

}  // namespace holdfast::detail
