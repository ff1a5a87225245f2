// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "scenario.hpp"

namespace examples {

void kept_lock(Stage& stage);

/// The word by which a process knows that it is a worker that `kept_lock` has started; the URL of
/// the store and the path of the book are behind it.
inline constexpr std::string_view kKeptLockPart = "part-of-kept-lock";
int play_kept_lock_part(const std::string& store_url, const std::string& book_path);

}  // namespace examples
