// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <holdfast/sqlite_store.hpp>

#include "database.hpp"
#include "store/neighbours.hpp"

namespace holdfast::detail {

/// When the log has grown by so many pages, they go to the database file. Long enough that a page
/// which is written again and again goes there once.
inline constexpr int kCheckpointPages = 4'000;

/// A store made of parts, so that a test can put a failing disk under it.
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store(const DatabaseFile& file,
                                                       const SqliteOptions& options,
                                                       std::unique_ptr<Neighbours> neighbours,
                                                       int checkpoint_pages = kCheckpointPages);

}  // namespace holdfast::detail
