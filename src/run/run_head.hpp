// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <run.pb.h>

#include <holdfast/commit_outcome.hpp>
#include <holdfast/engine.hpp>

namespace holdfast::detail {

/// Damaged rows are a `StoreCorrupt`, those of later versions a `NewerFormat`.
[[nodiscard]] record::RunHead read_run_head(const Entry& row);
[[nodiscard]] record::Activation read_activation(const Entry& row);
[[nodiscard]] record::RunMessage read_message(const Entry& row);

[[nodiscard]] RunInfo info_of(std::string_view id, const record::RunHead& head);

}  // namespace holdfast::detail
