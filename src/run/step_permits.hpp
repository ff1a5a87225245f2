// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/store.hpp>

#include "run_machine.hpp"

namespace holdfast::detail {

/// The permits that an attempt of a step needs, as far as it has them. It takes one after the
/// other, in one order for all: so no two steps wait for each other on their account.
class StepPermits {
 public:
  /// A gate at which it is.
  struct Place {
    std::string gate;
    std::string waiter_key;  ///< Empty: it holds it, and did not wait.
  };

  StepPermits(StepLimits limits, FirstPermit first);

  [[nodiscard]] const std::vector<LockTerms>& wanted() const noexcept { return limits_.wanted; }
  /// The next one to ask for; null: it has all.
  [[nodiscard]] const LockTerms* next() const noexcept {
    return fences_.size() < limits_.wanted.size() ? &limits_.wanted[fences_.size()] : nullptr;
  }
  [[nodiscard]] bool has_any() const noexcept { return !fences_.empty(); }
  /// Of the step's own limit, once it has all.
  [[nodiscard]] Version fence() const noexcept;
  [[nodiscard]] Version newest() const noexcept {
    return fences_.empty() ? 0 : *std::ranges::max_element(fences_);
  }
  /// With which it waits for the next one; empty: it does not.
  [[nodiscard]] const std::string& waiter_key() const noexcept { return waiter_key_; }
  /// The first could not be asked for.
  [[nodiscard]] std::exception_ptr take_refusal() noexcept { return std::exchange(refusal_, {}); }

  void wait(std::string waiter_key) { waiter_key_ = std::move(waiter_key); }
  /// It has the next one.
  void take(Version fence);
  /// It does not wait any more.
  void stop_waiting() noexcept { waiter_key_.clear(); }

  /// All that it has or waits for.
  [[nodiscard]] std::vector<Place> places() const;
  /// All that was given back.
  void give_back();

  // What else is in the store on account of this attempt, and goes with it.

  /// The timer that ends the wait; nothing: there is none.
  std::optional<StoreTime> deadline;
  /// Messages that it was let in. They stay while the attempt is under way: whoever takes over
  /// finds by them that there is something to do.
  std::vector<std::string> messages;

  // --- After a crash -----------------------------------------------------------------------------

  /// Limits that the code does not know any more, at which it may be still.
  [[nodiscard]] std::vector<std::string> former_limits() const;
  void leave_later(Place place) { former_.push_back(std::move(place)); }

 private:
  StepLimits limits_;
  std::vector<Version> fences_;  // Of those that it has, which come first.
  std::string waiter_key_;
  std::exception_ptr refusal_;
  std::vector<Place> former_;
};

}  // namespace holdfast::detail
