// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace holdfast::detail {

/// How many requests a run remembers; which those are depends on the journal alone.
inline constexpr std::size_t kRequestsKeptMax = 10'000;

/// How many of them the run knows that it goes on as.
inline constexpr std::size_t kRequestsPassedOnMax = 1'000;

/// What came of the last requests.
template <typename Answer>
class RecentRequests {
 public:
  /// Null: it is new, or too long ago.
  [[nodiscard]] const Answer* find(const std::string& request) const {
    const auto found = answers_.find(request);
    return found == answers_.end() ? nullptr : &found->second;
  }
  /// The last ones, the oldest first.
  [[nodiscard]] std::vector<std::string> last(std::size_t count) const {
    const std::size_t skipped = order_.size() - std::min(count, order_.size());
    return {order_.begin() + static_cast<std::ptrdiff_t>(skipped), order_.end()};
  }
  void add(const std::string& request, Answer answer) {
    if (answers_.emplace(request, std::move(answer)).second) {
      order_.push_back(request);
    }
    if (order_.size() > kRequestsKeptMax) {
      answers_.erase(order_.front());
      order_.pop_front();
    }
  }

 private:
  std::unordered_map<std::string, Answer> answers_;
  std::deque<std::string> order_;
};

}  // namespace holdfast::detail
