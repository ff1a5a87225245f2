// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <holdfast/store.hpp>

#include "backend.hpp"
#include "committer.hpp"

namespace holdfast::detail {

/// The store that a committer and a backend make.
[[nodiscard]] std::unique_ptr<Store> make_disk_store(std::unique_ptr<Backend> backend,
                                                     const CommitterLimits& limits);

}  // namespace holdfast::detail
