// SPDX-License-Identifier: Apache-2.0
#include "sync/waiters.hpp"
#include "typing_error.hpp"
