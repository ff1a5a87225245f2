// SPDX-License-Identifier: Apache-2.0
#include "run_payload.hpp"

#include <boost/json/serialize.hpp>
#include <holdfast/detail/payload_fault.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/store_error.hpp>

#include "json/exact_parse.hpp"

namespace holdfast::detail {

std::string payload_text(const boost::json::value& value) {
  return value.is_null() ? std::string() : boost::json::serialize(value);
}

std::string payload_text(const boost::json::value& value, std::string_view what) {
  std::string text = payload_text(value);
  if (text.size() > kPayloadBytesMax) {
    std::string message(what);
    message.append(" has ").append(std::to_string(text.size())).append(" bytes as JSON, and ");
    message.append(std::to_string(kPayloadBytesMax)).append(" are the most: ");
    throw BadPayload(message.append("keep it elsewhere, and give its name"));
  }
  return text;
}

boost::json::value parse_payload(std::string_view text) {
  if (text.empty()) {
    return nullptr;
  }
  boost::json::error_code error;
  boost::json::value value = exact_parse(text, kPayloadDepthMax, error);
  if (error) {
    throw StoreCorrupt("a payload in the journal of a run is no JSON: " + error.message());
  }
  return value;
}

// --- Payloads of the wrong type ------------------------------------------------------------------

namespace {

std::string_view kind_of(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "an object";
    default:
      return "a number";
  }
}

}  // namespace

void refuse_payload(std::string_view what, const std::string& fault) {
  std::string text("'");
  text.append(what).append("' is not of the type that the code wants: ").append(fault);
  throw BadPayload(text);
}

std::string fault_at(const std::string& path, std::string_view wanted,
                     const boost::json::value& found) {
  std::string text(path);
  text.append(": expected ").append(wanted).append(", and it is ");
  return found.is_number() ? text.append(boost::json::serialize(found))
                           : text.append(kind_of(found));
}

std::string missing_member(const std::string& path, std::string_view name) {
  return member_path(path, name).append(" is missing");
}

std::string unknown_member(const std::string& path, std::string_view name) {
  return member_path(path, name).append(": no such member is known");
}

std::string member_path(const std::string& path, std::string_view name) {
  std::string longer(path);
  return longer.append(".").append(name);
}

std::string element_path(const std::string& path, std::size_t index) {
  std::string longer(path);
  return longer.append("[").append(std::to_string(index)).append("]");
}

}  // namespace holdfast::detail
