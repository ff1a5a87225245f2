// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Tasks, and the locks and limits of one process.
#include <holdfast/all_any.hpp>
#include <holdfast/contention.hpp>
#include <holdfast/deadlock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/keyed_mutex.hpp>
#include <holdfast/keyed_rate_limiter.hpp>
#include <holdfast/lock_all.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/rate_limiter.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/shared_mutex.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/task.hpp>
#include <holdfast/this_task.hpp>
