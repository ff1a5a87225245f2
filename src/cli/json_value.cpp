// SPDX-License-Identifier: Apache-2.0
#include "json_value.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <cstddef>
#include <utility>

#include <fmt/core.h>

#include "escape.hpp"

namespace holdfast::cli {

namespace {

namespace json = boost::json;

/// As short as it can be read again, and never like a whole number: that is another one.
std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".e") == text.npos ? text + ".0" : text;
}

/// Appends values to a text.
class Writer {
 public:
  explicit Writer(bool indented) : indented_(indented) {}

  // NOLINTNEXTLINE(misc-no-recursion): as deep as the values of cells may be.
  void write(const json::value& value) {
    if (const json::object* members = value.if_object()) {
      write_list('{', '}', *members, [this](const json::key_value_pair& member) {
        text_ += json_string(member.key()) + ": ";
        write(member.value());
      });
    } else if (const json::array* items = value.if_array()) {
      write_list('[', ']', *items, [this](const json::value& item) { write(item); });
    } else if (const json::string* text = value.if_string()) {
      text_ += json_string(*text);
    } else if (const double* number = value.if_double()) {
      text_ += number_text(*number);
    } else {
      text_ += json::serialize(value);
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  // NOLINTBEGIN(misc-no-recursion)
  template <typename List, typename WriteOne>
  void write_list(char open, char close, const List& list, const WriteOne& write_one) {
    text_ += open;
    ++depth_;
    bool first = true;
    for (const auto& one : list) {
      text_ += first ? "" : indented_ ? "," : ", ";
      first = false;
      break_line();
      write_one(one);
    }
    --depth_;
    if (!first) {
      break_line();
    }
    text_ += close;
  }
  // NOLINTEND(misc-no-recursion)

  void break_line() {
    if (indented_) {
      text_.append("\n").append(2 * depth_, ' ');
    }
  }

  bool indented_;
  std::size_t depth_ = 0;
  std::string text_;
};

std::string text_of(const json::value& value, bool indented) {
  Writer writer(indented);
  writer.write(value);
  return writer.take();
}

}  // namespace

std::string json_text(const json::value& value) { return text_of(value, false); }

std::string indented_json_text(const json::value& value) { return text_of(value, true); }

}  // namespace holdfast::cli
