// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <run.pb.h>

#include <holdfast/detail/run_handler.hpp>
#include <holdfast/detail/run_operation.hpp>

#include "recent_requests.hpp"

namespace holdfast::detail {

/// The signals of a run: those that wait for someone, and those who wait for them.
class RunSignals {
 public:
  /// Gives it to whoever waits, or to the handler, or keeps it. Throws what the handler throws.
  void take(const record::RunEvent& event);
  /// Settles it with one that was kept, or when one comes.
  void await(std::string_view name, const std::shared_ptr<RunOperation>& operation);
  /// Gets those that were kept, at once.
  void handle(std::string_view name, RunHandler handler);
  /// Those that nobody took, in the order in which they came.
  [[nodiscard]] std::vector<record::RunEvent> take_kept();
  [[nodiscard]] std::size_t kept_count() const noexcept;
  /// Those that were taken and are not kept any more, the oldest first; and those that were taken
  /// before this run began.
  [[nodiscard]] std::vector<std::string> requests_done() const;
  void know(const std::vector<std::string>& requests);
  /// Names of signals that somebody waits for, and of those that have a handler.
  [[nodiscard]] std::vector<std::string> awaited() const;
  [[nodiscard]] std::vector<std::string> handled() const;
  /// What a handler refers to is about to go.
  void forget_handlers();

 private:
  struct Kept {
    std::uint64_t order = 0;
    boost::json::value payload;
    std::string request;
  };
  struct Line {
    std::deque<Kept> kept;
    std::deque<std::shared_ptr<RunOperation>> awaited;
    RunHandler handler;
  };
  [[nodiscard]] Line& line(std::string_view name);

  std::map<std::string, Line, std::less<>> lines_;
  std::uint64_t taken_ = 0;
  struct Nothing {};
  RecentRequests<Nothing> seen_;
};

}  // namespace holdfast::detail
