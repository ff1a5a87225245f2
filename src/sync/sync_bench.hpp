// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace holdfast::bench {

/// Nanoseconds to lock and unlock a `Mutex` that nobody else wants.
double uncontended_mutex_ns();

/// Nanoseconds to hand a `Mutex` from one coroutine to the next in line, on one thread.
double handoff_mutex_ns();

}  // namespace holdfast::bench
