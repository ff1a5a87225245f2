// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/detail/turnstile.hpp>

namespace holdfast::detail {

/// What is written down of an owner while it waits for or holds something that is watched.
struct OwnerRecord {
  explicit OwnerRecord(const Owner& owner);

  std::uint64_t id;  ///< Zero is unknown.
  std::string name;
  struct Ancestor {
    std::uint64_t id;
    std::string name;
  };
  std::vector<Ancestor> waiting_ancestors;  ///< Those who cannot go on before this one has ended.
};

/// One acquisition of a watched lock, from the start of its wait to its release.
struct Holder {
  Holder(const Owner& acquirer, std::uint64_t lock, std::uint32_t units,
         std::shared_ptr<TurnstileProfile> made_by)
      : owner(acquirer), lock_id(lock), weight(units), profile(std::move(made_by)) {}

  OwnerRecord owner;
  std::uint64_t lock_id;
  std::uint32_t weight;
  std::shared_ptr<TurnstileProfile> profile;
  bool waited = false;
  bool holds = false;
  bool warned = false;
  TimePoint since{};  // The start of the wait, then of the hold.
  Holder* previous = nullptr;
  Holder* next = nullptr;
};

}  // namespace holdfast::detail
