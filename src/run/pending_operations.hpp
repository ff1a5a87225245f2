// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <holdfast/detail/run_operation.hpp>

#include "base/fetch_ahead.hpp"

namespace holdfast::detail {

/// The operations of a run that have not ended, by their numbers. One list, as numbers only grow:
/// to add is to append, and places that became free are closed up now and then.
class PendingOperations {
 public:
  void add(std::shared_ptr<RunOperation> operation) {
    const std::uint64_t number = operation->number();
    places_.push_back({number, std::move(operation)});
  }
  [[nodiscard]] std::size_t size() const noexcept { return places_.size() - free_; }
  [[nodiscard]] bool contains(std::uint64_t number) const {
    return std::any_of(places_.begin(), places_.end(), [number](const Place& place) {
      return place.number == number && place.operation != nullptr;
    });
  }
  /// The oldest of them, or null.
  [[nodiscard]] const RunOperation* first() const noexcept {
    return places_.empty() ? nullptr : places_.front().operation.get();
  }
  void fetch_ahead() const noexcept { detail::fetch_ahead(places_.data()); }
  /// Null: there is none.
  [[nodiscard]] std::shared_ptr<RunOperation> take(std::uint64_t number) {
    const auto found =
        std::lower_bound(places_.begin(), places_.end(), number,
                         [](const Place& place, std::uint64_t at) { return place.number < at; });
    if (found == places_.end() || found->number != number || found->operation == nullptr) {
      return nullptr;
    }
    std::shared_ptr<RunOperation> operation = std::move(found->operation);
    ++free_;
    close_up();
    return operation;
  }

 private:
  struct Place {
    std::uint64_t number;
    std::shared_ptr<RunOperation> operation;
  };
  static constexpr std::size_t kFreeMin = 16;

  void close_up() {
    if (free_ == places_.size()) {
      places_.clear();
      free_ = 0;
    } else if (free_ > kFreeMin && free_ > places_.size() / 2) {
      std::erase_if(places_, [](const Place& place) { return place.operation == nullptr; });
      free_ = 0;
    }
  }

  std::vector<Place> places_;
  std::size_t free_ = 0;
};

}  // namespace holdfast::detail
