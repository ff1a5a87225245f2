// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <holdfast/clock.hpp>

#include "args.hpp"

namespace holdfast::cli {

/// The number that `word`, given to `option`, is; throws `UsageError` if it is none from `least` to
/// `most`.
[[nodiscard]] std::int64_t number_of(std::string_view option, const std::string& word,
                                     std::int64_t least, std::int64_t most);

/// Likewise a time, as of `parse_duration`.
[[nodiscard]] Duration time_of(std::string_view option, const std::string& word,
                               Duration least = Duration::zero());

/// The options that most commands have, which put the words behind them into the strings.
void add_store_option(CLI::App& command, std::string& url);
void add_output_option(CLI::App& command, std::string& form);

/// The form of output that `word` names.
[[nodiscard]] Output output_of(const std::string& word);

}  // namespace holdfast::cli
