// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/store.hpp>

#include "run_world.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

/// Which partitions of a queue this process drives. The engines that live share them evenly: one
/// that has too few takes those of the dead and those that nobody has, one that has too many hands
/// over what has nothing in hand.
class Ownership {
 public:
  Ownership(std::shared_ptr<RunWorld> world, std::string queue);
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;

  [[nodiscard]] const std::string& queue() const noexcept { return queue_; }

  /// Lets the others know that this one takes part, and that it does not any more.
  [[nodiscard]] Task<void> join();
  [[nodiscard]] Task<void> leave();

  /// When it may look different, if nobody says so before.
  [[nodiscard]] Task<std::optional<StoreTime>> balance();
  /// All of them.
  [[nodiscard]] Task<void> hand_over();

  [[nodiscard]] std::shared_ptr<Tenure> tenure_of(std::uint32_t partition) const;
  [[nodiscard]] std::shared_ptr<Tenure> tenure_of(const RunPlace& place) const {
    return place.queue == queue_ ? tenure_of(place.partition) : nullptr;
  }
  [[nodiscard]] std::vector<std::shared_ptr<Tenure>> tenures() const;
  /// One after the other, each so many times.
  [[nodiscard]] std::shared_ptr<Tenure> next_tenure(std::size_t in_a_row);

 private:
  struct Engines {
    std::size_t count = 0;
    std::optional<StoreTime> next_expiry{};
  };
  [[nodiscard]] Task<Engines> count_engines();
  [[nodiscard]] Task<void> take_back();
  [[nodiscard]] Task<bool> take(std::uint32_t partition);
  [[nodiscard]] std::string own_key() const;

  const std::shared_ptr<RunWorld> world_;
  const std::string queue_;

  mutable std::mutex mutex_;
  std::array<std::shared_ptr<Tenure>, kPartitionsPerQueue> tenures_;
  std::uint32_t next_ = 0;
  std::size_t given_in_a_row_ = 0;
};

}  // namespace holdfast::detail
