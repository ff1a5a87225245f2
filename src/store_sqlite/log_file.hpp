// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "database.hpp"

namespace holdfast::detail {

/// Makes the log durable as it is, by writing it again. Only in a turn, and alone.
///
/// It may end with commits whose process was killed before the sync, or whose sync failed. Whoever
/// opens the store next reads them, so they must stay; and after a sync that failed, a later one
/// brings back nothing that is not written again.
void sync_log(const DatabaseFile& file);

}  // namespace holdfast::detail
