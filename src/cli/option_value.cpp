// SPDX-License-Identifier: Apache-2.0
#include "option_value.hpp"

#include <charconv>
#include <system_error>

#include <fmt/core.h>

#include "duration.hpp"
#include "suggest.hpp"

namespace holdfast::cli {

std::int64_t number_of(std::string_view option, const std::string& word, std::int64_t least,
                       std::int64_t most) {
  std::int64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || rest != end || number < least || number > most) {
    throw UsageError(fmt::format("'{} {}' is no number from {} to {}", option, word, least, most));
  }
  return number;
}

Duration time_of(std::string_view option, const std::string& word, Duration least) {
  const auto duration = parse_duration(word);
  if (!duration) {
    throw UsageError(
        fmt::format("'{} {}' is no time; write such as 500ms, 30s, 30m, 3h or 1d", option, word));
  }
  if (*duration < least) {
    throw UsageError(
        fmt::format("'{} {}' is too short; at least {}", option, word, duration_text(least)));
  }
  return *duration;
}

void add_store_option(CLI::App& command, std::string& url) {
  command
      .add_option(
          "--store", url,
          "The store, such as sqlite:PATH; or set HOLDFAST_STORE; or see 'holdfast config show'")
      ->type_name("URL");
}

void add_output_option(CLI::App& command, std::string& form) {
  command.add_option("-o,--output", form, "table (the default), json or jsonl")->type_name("FORM");
}

Output output_of(const std::string& word) {
  if (word == "table") {
    return Output::kTable;
  }
  if (word == "json") {
    return Output::kJson;
  }
  if (word == "jsonl") {
    return Output::kJsonLines;
  }
  const auto suggestion = did_you_mean(word, {"table", "json", "jsonl"});
  throw UsageError(fmt::format("unknown form '{}' of output{}", word,
                               suggestion.empty() ? "; write table, json or jsonl" : suggestion));
}

}  // namespace holdfast::cli
