// SPDX-License-Identifier: Apache-2.0
#include "exact_parse.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

namespace holdfast::detail {

namespace {

namespace json = boost::json;

/// Builds the value from what the parser finds. A text comes in one piece or in several.
class Builder {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the parser calls them so.
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();
  // NOLINTEND(readability-identifier-naming)

  Builder() : stack_({}, memory_.data(), memory_.size()) { stack_.reset(); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  ~Builder() = default;
  json::value take() { return stack_.release(); }

  bool on_document_begin(json::error_code& /*error*/) { return true; }
  bool on_document_end(json::error_code& /*error*/) { return true; }
  bool on_object_begin(json::error_code& /*error*/) { return true; }
  bool on_object_end(std::size_t count, json::error_code& /*error*/) {
    stack_.push_object(count);
    return true;
  }
  bool on_array_begin(json::error_code& /*error*/) { return true; }
  bool on_array_end(std::size_t count, json::error_code& /*error*/) {
    stack_.push_array(count);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, std::size_t /*size*/, json::error_code& /*error*/) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(json::string_view part, json::error_code& /*error*/) {
    number_.append(part.data(), part.size());
    return true;
  }
  bool on_int64(std::int64_t number, json::string_view /*part*/, json::error_code& /*error*/) {
    number_.clear();
    stack_.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, json::string_view /*part*/, json::error_code& /*error*/) {
    number_.clear();
    stack_.push_uint64(number);
    return true;
  }
  bool on_double(double /*near*/, json::string_view part, json::error_code& error) {
    number_.append(part.data(), part.size());
    double number = 0;
    const char* const end = number_.data() + number_.size();
    const std::from_chars_result read = std::from_chars(number_.data(), end, number);
    number_.clear();
    if (read.ec != std::errc() || read.ptr != end) {
      error = json::error::exponent_overflow;
      return false;
    }
    stack_.push_double(number);
    return true;
  }
  bool on_bool(bool truth, json::error_code& /*error*/) {
    stack_.push_bool(truth);
    return true;
  }
  bool on_null(json::error_code& /*error*/) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
  bool on_comment(json::string_view /*part*/, json::error_code& /*error*/) { return true; }

 private:
  /// What is small needs no more than this.
  std::array<unsigned char, 512> memory_;
  json::value_stack stack_;
  std::string number_;
};

}  // namespace

json::value exact_parse(std::string_view text, std::size_t depth_max, json::error_code& error) {
  std::size_t used = 0;
  return exact_parse(text, depth_max, error, used);
}

json::value exact_parse(std::string_view text, std::size_t depth_max, json::error_code& error,
                        std::size_t& used) {
  json::parse_options options;
  options.max_depth = depth_max;
  json::basic_parser<Builder> parser(options);
  used = parser.write_some(false, text.data(), text.size(), error);
  if (!error && used < text.size()) {
    error = json::error::extra_data;
  }
  return error ? json::value() : parser.handler().take();
}

}  // namespace holdfast::detail
