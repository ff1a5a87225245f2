// SPDX-License-Identifier: Apache-2.0
#include "store_url.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <holdfast/error.hpp>
#include <holdfast/open_store.hpp>

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

/// A part of `url` for a message: it may be part of a secret.
std::string shown_part(std::string_view part, std::string_view url) {
  return redacted_url(url) == url ? " '" + std::string(part) + "'" : std::string();
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
      throw InvalidArgument("the store URL '" + redacted_url(url) + "' has a bad escape" +
                            shown_part(part.substr(i, 3), url) +
                            "; write a percent sign as %25, and other bytes as %XX");
    }
    text += static_cast<char>(*high << 4U | *low);
    i += 2;
  }
  return text;
}

std::pair<std::string, std::string> parse_option(std::string_view part, std::string_view url) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InvalidArgument("the store URL '" + redacted_url(url) + "' has an option" +
                          shown_part(part, url) + " without a value; write name=value");
  }
  return {unescaped(part.substr(0, equals), url), unescaped(part.substr(equals + 1), url)};
}

constexpr std::string_view kHidden = "***";

bool is_secret_option(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
  });
  constexpr std::array<std::string_view, 5> kNames{"pass", "pwd", "secret", "token", "key"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view part) { return lower.find(part) != lower.npos; });
}

std::string without_secret_options(std::string_view url) {
  std::string text;
  bool in_options = false;
  while (!url.empty()) {
    const std::size_t end = std::min(url.find_first_of(in_options ? "&" : "?"), url.size());
    const std::string_view part = url.substr(0, end);
    const std::size_t equals = part.find('=');
    if (in_options && equals != part.npos && is_secret_option(part.substr(0, equals))) {
      text.append(part.substr(0, equals + 1)).append(kHidden);
    } else {
      text.append(part);
    }
    text.append(url.substr(end, 1));
    url.remove_prefix(std::min(end + 1, url.size()));
    in_options = true;
  }
  return text;
}

/// What is before the last '@', from the first colon on; without "//" all of it.
std::string without_password(std::string_view url) {
  const std::size_t colon = url.find(':');
  const std::size_t at = url.rfind('@');
  if (colon == url.npos || at == url.npos || at < colon) {
    return std::string(url);
  }
  std::size_t begin = colon + 1;
  if (url.substr(begin).starts_with("//")) {
    begin = url.find(':', begin);
    if (begin == url.npos || begin > at) {
      return std::string(url);  // A name alone.
    }
    ++begin;
  }
  return std::string(url.substr(0, begin)).append(kHidden).append(url.substr(at));
}

/// Their paths may have an '@'.
bool is_of_a_file(std::string_view url) {
  return url.starts_with("sqlite:") || url.starts_with("file:");
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
  StoreUrl url{redacted_url(text), std::string(text.substr(0, colon)), unescaped(rest, text), {}};
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

namespace holdfast {

std::string redacted_url(std::string_view url) {
  return detail::without_secret_options(detail::is_of_a_file(url) ? std::string(url)
                                                                  : detail::without_password(url));
}

}  // namespace holdfast
