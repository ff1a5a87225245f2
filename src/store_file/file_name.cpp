// SPDX-License-Identifier: Apache-2.0
#include "file_name.hpp"

#include "base64.hpp"

namespace holdfast::detail {

namespace {

constexpr std::string_view kFolderEnd = "+/";
constexpr std::string_view kFileEnd = ".json";
constexpr char kBase64Mark = '=';
// A path has at most 4,096 bytes, with the folder that the store is in; every byte as %XX would
// take up to 6,144.
constexpr std::size_t kEscapedBytesMax = 2'600;
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool stands_for_itself(char letter, bool first) noexcept {
  const bool letter_or_digit = (letter >= 'a' && letter <= 'z') ||
                               (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
  return letter_or_digit || letter == '-' || letter == '_' || (letter == '.' && !first);
}

std::string escaped(std::string_view key) {
  std::string text;
  for (const char letter : key) {
    if (stands_for_itself(letter, text.empty())) {
      text += letter;
    } else {
      const auto byte = static_cast<unsigned char>(letter);
      text += '%';
      text += kHexDigits[byte >> 4U];
      text += kHexDigits[byte & 0xfU];
    }
  }
  return text;
}

/// Takes every escape that could be meant; what is not canonical shows when it is escaped again.
std::optional<std::string> unescaped(std::string_view text) {
  std::string key;
  while (!text.empty()) {
    if (text.front() != '%') {
      key += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::size_t high = text.size() < 3 ? text.npos : kHexDigits.find(text[1]);
    const std::size_t low = text.size() < 3 ? text.npos : kHexDigits.find(text[2]);
    if (high == text.npos || low == text.npos) {
      return std::nullopt;
    }
    key += static_cast<char>(high << 4U | low);
    text.remove_prefix(3);
  }
  return key;
}

}  // namespace

std::string file_name_of(std::string_view key) {
  std::string text = escaped(key);
  if (text.size() > kEscapedBytesMax) {
    text = kBase64Mark + to_base64(key, Base64::kFileName);
  }
  std::string name;
  std::string_view rest = text;
  for (; rest.size() > kNamePartBytesMax; rest.remove_prefix(kNamePartBytesMax)) {
    name.append(rest.substr(0, kNamePartBytesMax)).append(kFolderEnd);
  }
  return name.append(rest).append(kFileEnd);
}

std::optional<std::string> key_of_file_name(std::string_view name) {
  if (!name.ends_with(kFileEnd)) {
    return std::nullopt;
  }
  std::string text;
  for (std::string_view rest = name.substr(0, name.size() - kFileEnd.size()); !rest.empty();) {
    const std::size_t part = rest.find(kFolderEnd);
    text += rest.substr(0, part);
    rest.remove_prefix(part == rest.npos ? rest.size() : part + kFolderEnd.size());
  }
  auto key = text.starts_with(kBase64Mark)
                 ? from_base64(std::string_view(text).substr(1), Base64::kFileName)
                 : unescaped(text);
  // So that a key has one name only.
  if (!key || key->empty() || file_name_of(*key) != name) {
    return std::nullopt;
  }
  return key;
}

}  // namespace holdfast::detail
