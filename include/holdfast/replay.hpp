// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

/// A run as it was recorded, to be kept in a file, beside the code that must fit it.
struct RecordedRun {
  std::string id;
  std::string type;
  boost::json::value input{};
  /// The rows of its journal, as they are in the store.
  std::vector<std::string> rows{};
  std::string uid{};        ///< Empty: as `id`.
  std::string root_id{};    ///< Empty: as `id`.
  std::string parent_id{};  ///< Empty: it is no child.
  StoreTime started_at{};   ///< As `Context::started_at`.
  /// Of signals that the runs before it, which it continues, have taken.
  std::vector<std::string> requests_done{};
  /// What these have answered to updates, as it is in the store.
  std::vector<std::string> answers{};
  std::string root_uid{};  ///< Under which its cells are. Empty: as `root_id`.
  /// Of the run that began the journal, if this one was reset: what is random follows from it.
  /// Empty: as `uid`.
  std::string random_uid{};

  /// A line of JSON for the run, and one in hexadecimal for each row.
  [[nodiscard]] std::string to_text() const;
  /// Lines that are empty or begin with # are passed over. Throws `InvalidArgument`, naming the
  /// line.
  [[nodiscard]] static RecordedRun from_text(std::string_view text);
};

/// Whether code fits a run.
struct ReplayVerdict {
  bool fits = false;
  std::size_t rows = 0;   ///< That were gone over.
  bool ended = false;     ///< The run came to its end.
  std::string complaint;  ///< Where the code strays: what the journal has, and what the code does.

  explicit operator bool() const noexcept { return fits; }
};

namespace detail {
[[nodiscard]] ReplayVerdict check_replay_of(std::string_view name, const WorkflowCode& code,
                                            const RecordedRun& run);
}

/// Goes over a recorded run with the code of today, without doing anything: for the tests of those
/// who change a workflow of which runs are under way.
///
/// ```
/// const auto run = RecordedRun::from_text(read_file("runs/fulfil_2024.txt"));
/// const ReplayVerdict verdict = check_replay(fulfilment, run);
/// EXPECT_TRUE(verdict.fits) << verdict.complaint;
/// ```
///
/// Throws `InvalidArgument` if the run is of another workflow, or a row is damaged.
template <Payload In, Payload Out>
[[nodiscard]] ReplayVerdict check_replay(const Workflow<In, Out>& workflow,
                                         const RecordedRun& run) {
  return detail::check_replay_of(workflow.name(), *workflow.code(), run);
}

}  // namespace holdfast
