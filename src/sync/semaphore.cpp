// SPDX-License-Identifier: Apache-2.0
#include <holdfast/semaphore.hpp>

#include <holdfast/detail/limits.hpp>

namespace holdfast {

Semaphore::Semaphore(std::int64_t capacity, const SyncOptions& options)
    : profile_("Semaphore", options),
      turnstile_(detail::checked_capacity(capacity, *profile_.get()), profile_.get()) {}

void Semaphore::set_capacity(std::int64_t capacity) {
  turnstile_->set_capacity(detail::checked_capacity(capacity, *profile_.get()));
}

Contention Semaphore::contention() const { return detail::contention_of(*profile_.get()); }

}  // namespace holdfast
