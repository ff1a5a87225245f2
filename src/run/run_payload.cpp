// SPDX-License-Identifier: Apache-2.0
#include "run_payload.hpp"

#include <boost/json/serialize.hpp>
#include <holdfast/store_error.hpp>
#include <holdfast/workflow.hpp>

#include "json/exact_parse.hpp"

namespace holdfast::detail {

std::string payload_text(const boost::json::value& value) {
  return value.is_null() ? std::string() : boost::json::serialize(value);
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

void refuse_payload(std::string_view what, const std::string& why) {
  throw BadPayload("'" + std::string(what) + "' is not of the type that the code wants: " + why);
}

}  // namespace holdfast::detail
