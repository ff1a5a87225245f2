// SPDX-License-Identifier: Apache-2.0
#include <holdfast/shared_mutex.hpp>

#include <holdfast/detail/limits.hpp>

namespace holdfast {

SharedMutex::SharedMutex(const SyncOptions& options)
    : profile_("SharedMutex", options), turnstile_(detail::Turnstile::kUnitsMax, profile_.get()) {}

std::size_t SharedMutex::reader_count() const noexcept {
  const std::uint32_t free = turnstile_->free_units();
  return free == 0 ? 0 : detail::Turnstile::kUnitsMax - free;
}

Contention SharedMutex::contention() const { return detail::contention_of(*profile_.get()); }

}  // namespace holdfast
