// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/neighbours.hpp"
#include "tests/crash/dice.hpp"
#include "tests/crash/stage.hpp"

namespace holdfast::testing {

/// The durable mark as a file would keep it: a kill leaves it, a power cut may leave an older one.
class KeptMark {
 public:
  [[nodiscard]] std::uint64_t get() const noexcept { return marks_.back(); }
  void set(std::uint64_t mark) { marks_.push_back(mark); }
  void power_cut(Dice& dice) {
    marks_.resize(1 + dice.below(marks_.size()));
    marks_.erase(marks_.begin(), marks_.end() - 1);
  }

 private:
  std::vector<std::uint64_t> marks_ = {0};
};

/// Neighbours of a store that has none: it always has the turn, and there are no news.
class Alone final : public detail::Neighbours {
 public:
  Alone(KeptMark& mark, Stage& stage) : mark_(mark), stage_(stage) {}

  [[nodiscard]] bool take_turn(TimePoint /*until*/) override {
    stage_.pause();
    return true;
  }
  void end_turn() noexcept override { stage_.rest(); }
  [[nodiscard]] bool turn_wanted() noexcept override { return false; }
  /// What it was before its process died does not matter: the next one opens the store anew.
  [[nodiscard]] bool is_settled() const noexcept override { return settled_; }
  void set_settled(bool settled) noexcept override { settled_ = settled; }
  [[nodiscard]] bool alone() const noexcept override { return true; }

  /// After each group: tasks that build on what was applied meanwhile make the next one.
  void publish(std::span<const std::string_view> /*keys*/) noexcept override { stage_.pause(); }
  [[nodiscard]] std::optional<News> wait_for_news(TimePoint /*until*/) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return interrupted_; });
    return std::nullopt;
  }
  void interrupt() noexcept override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::uint64_t durable_mark() const noexcept override { return mark_.get(); }
  void set_durable_mark(std::uint64_t version) noexcept override { mark_.set(version); }

 private:
  KeptMark& mark_;
  Stage& stage_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool interrupted_ = false;
  bool settled_ = true;
};

}  // namespace holdfast::testing
