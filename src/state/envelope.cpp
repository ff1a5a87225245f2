// SPDX-License-Identifier: Apache-2.0
#include "envelope.hpp"

#include <boost/json/serialize.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <holdfast/store_error.hpp>

#include "json/exact_parse.hpp"
#include "json/utf8.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace json = boost::json;

namespace {

constexpr std::uint64_t kFormat = 1;

[[noreturn]] void refuse_record(const std::string& key, const std::string& why) {
  throw StoreCorrupt("the cell " + printable(key) + " cannot be read: " + why +
                     ". Its record is damaged, or something else is stored there");
}

[[noreturn]] void refuse_value(std::string_view key, std::string_view why) {
  std::string message("the cell ");
  throw InvalidArgument(
      message.append(printable(key)).append(" cannot hold the value: it has ").append(why));
}

json::object parsed(const Entry& entry) {
  json::error_code error;
  constexpr std::size_t kDepthMax = kCellDepthMax + 1;  // The envelope is a level, too.
  json::value document = exact_parse(entry.value, kDepthMax, error);
  if (error || !document.is_object()) {
    refuse_record(entry.key,
                  error ? "it is no JSON (" + error.message() + ")" : "it is no JSON object");
  }
  return std::move(document.get_object());
}

void check_format(const json::object& members, const std::string& key) {
  const json::value* member = members.if_contains("format");
  json::error_code error;
  const auto format = member == nullptr ? 0 : member->to_number<std::uint64_t>(error);
  if (error || format == 0) {
    refuse_record(key, "it has no format");
  }
  if (format > kFormat) {
    throw NewerFormat("the cell " + printable(key) + " has format " + std::to_string(format) +
                      ", and this version of Holdfast knows " + std::to_string(kFormat) +
                      "; use a newer one");
  }
}

void check_text(std::string_view text, std::string_view key) {
  if (!is_utf8(text)) {
    refuse_value(key, "a text that is not UTF-8");
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as kCellDepthMax.
void check(const json::value& value, std::string_view key, std::size_t depth) {
  if (value.is_structured() && depth >= kCellDepthMax) {  // Also an empty one is a level.
    refuse_value(key, "more than 64 levels");
  }
  if (value.is_double() && !std::isfinite(value.get_double())) {
    refuse_value(key, "a number that is not finite");
  }
  if (value.is_string()) {
    check_text(value.get_string(), key);
  }
  if (const json::array* items = value.if_array()) {
    for (const json::value& item : *items) {
      check(item, key, depth + 1);
    }
  }
  if (const json::object* members = value.if_object()) {
    for (const json::key_value_pair& member : *members) {
      check_text(member.key(), key);
      check(member.value(), key, depth + 1);
    }
  }
}

}  // namespace

Envelope::Envelope() { members_["format"] = kFormat; }

Envelope::Envelope(const Entry& entry) : members_(parsed(entry)) {
  check_format(members_, entry.key);
  if (!members_.contains("value")) {
    refuse_record(entry.key, "it has no value");
  }
}

std::string_view Envelope::operation() const {
  const json::value* operation = members_.if_contains("op");
  return operation != nullptr && operation->is_string() ? std::string_view(operation->get_string())
                                                        : std::string_view();
}

std::string Envelope::with(const json::value& value, std::string_view operation) && {
  members_["op"] = operation;
  members_["value"] = value;
  return json::serialize(members_);
}

void check_storable(const json::value& value, std::string_view key) { check(value, key, 0); }

}  // namespace holdfast::detail
