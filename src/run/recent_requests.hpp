// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
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

/// And how many bytes of answers: of older requests it knows that they were dealt with.
inline constexpr std::size_t kAnswerBytesPassedOnMax = std::size_t{256} * 1024;

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
    count = std::min(count, order_.size());
    std::vector<std::string> requests;
    requests.reserve(count);
    for (std::size_t i = order_.size() - count; i < order_.size(); ++i) {
      requests.push_back(order_[(oldest_ + i) % order_.size()]);
    }
    return requests;
  }
  void add(const std::string& request, Answer answer) {
    if (!answers_.emplace(request, std::move(answer)).second) {
      return;
    }
    if (order_.size() < kRequestsKeptMax) {
      order_.push_back(request);
      return;
    }
    answers_.erase(std::exchange(order_[oldest_], request));
    oldest_ = (oldest_ + 1) % order_.size();
  }

 private:
  std::unordered_map<std::string, Answer> answers_;
  std::vector<std::string> order_;  // A ring, when it is full.
  std::size_t oldest_ = 0;
};

}  // namespace holdfast::detail
