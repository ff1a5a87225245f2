// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <holdfast/sqlite_store.hpp>

#include "database.hpp"
#include "store/neighbours.hpp"

namespace holdfast::detail {

/// A store made of parts, so that a test can put a failing disk under it.
[[nodiscard]] std::unique_ptr<Store> open_sqlite_store(const DatabaseFile& file,
                                                       const SqliteOptions& options,
                                                       std::unique_ptr<Neighbours> neighbours);

}  // namespace holdfast::detail
