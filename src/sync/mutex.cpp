// SPDX-License-Identifier: Apache-2.0
#include <holdfast/mutex.hpp>

#include <holdfast/detail/limits.hpp>

namespace holdfast {

Mutex::Mutex(const SyncOptions& options)
    : profile_("Mutex", options), turnstile_(1, profile_.get()) {}

Contention Mutex::contention() const { return detail::contention_of(*profile_.get()); }

}  // namespace holdfast
