// SPDX-License-Identifier: Apache-2.0
#include "store_url.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <holdfast/error.hpp>

namespace holdfast::detail {

namespace {

std::optional<unsigned> hex_digit(char letter) {
  if (letter >= '0' && letter <= '9') {
    return static_cast<unsigned>(letter - '0');
  }
  const auto lower = static_cast<char>(letter | 0x20);
  if (lower >= 'a' && lower <= 'f') {
    return static_cast<unsigned>(lower - 'a') + 10U;
  }
  return std::nullopt;
}

std::string unescaped(std::string_view part, std::string_view url) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      text += part[i];
      continue;
    }
    const auto high = i + 1 < part.size() ? hex_digit(part[i + 1]) : std::nullopt;
    const auto low = i + 2 < part.size() ? hex_digit(part[i + 2]) : std::nullopt;
    if (!high || !low || (*high == 0 && *low == 0)) {
      throw InvalidArgument("the store URL '" + std::string(url) + "' has a bad escape '" +
                            std::string(part.substr(i, 3)) +
                            "'; write a percent sign as %25, and other bytes as %XX");
    }
    text += static_cast<char>(*high << 4U | *low);
    i += 2;
  }
  return text;
}

std::pair<std::string, std::string> parse_option(std::string_view part, std::string_view url) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InvalidArgument("the store URL '" + std::string(url) + "' has an option '" +
                          std::string(part) + "' without a value; write name=value");
  }
  return {unescaped(part.substr(0, equals), url), unescaped(part.substr(equals + 1), url)};
}

}  // namespace

StoreUrl parse_store_url(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    throw InvalidArgument("'" + std::string(text) +
                          "' is no store URL: it has no scheme; for a file write sqlite:" +
                          std::string(text.empty() ? "PATH" : text));
  }
  std::string_view rest = text.substr(colon + 1);
  std::string_view options;
  if (const auto question = rest.find('?'); question != std::string_view::npos) {
    options = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  if (rest.starts_with("///")) {
    rest.remove_prefix(2);  // As URLs of files are often written.
  }
  StoreUrl url{std::string(text), std::string(text.substr(0, colon)), unescaped(rest, text), {}};
  while (!options.empty()) {
    const std::string_view part = options.substr(0, options.find('&'));
    url.options.push_back(parse_option(part, text));
    options.remove_prefix(std::min(part.size() + 1, options.size()));
  }
  return url;
}

Duration parse_duration(std::string_view text, std::string_view name) {
  struct Unit {
    std::string_view name;
    std::int64_t ns;
  };
  static constexpr std::array<Unit, 6> kUnits{{{"ns", 1},
                                               {"us", 1'000},
                                               {"ms", 1'000'000},
                                               {"s", 1'000'000'000},
                                               {"m", 60'000'000'000},
                                               {"h", 3'600'000'000'000}}};
  std::int64_t count = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [rest, error] = std::from_chars(begin, end, count);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& one : kUnits) {
    if (error == std::errc{} && unit == one.name && count >= 0 &&
        count <= std::numeric_limits<std::int64_t>::max() / one.ns / 4) {
      return Duration(count * one.ns);
    }
  }
  throw InvalidArgument(std::string(name) + ": '" + std::string(text) +
                        "' is no time; write a number with a unit, such as 5s, 300ms or 2m");
}

}  // namespace holdfast::detail
