// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/members.hpp>
#include <boost/json/conversion.hpp>
#include <boost/json/error.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <boost/mp11/algorithm.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/detail/payload_defaults.hpp>

namespace holdfast::detail {

/// "`path`: expected `wanted`, and it is a string".
[[nodiscard]] std::string fault_at(const std::string& path, std::string_view wanted,
                                   const boost::json::value& found);
/// What a described struct has to say of members that are missing, or that it does not know.
[[nodiscard]] std::string missing_member(const std::string& path, std::string_view name);
[[nodiscard]] std::string unknown_member(const std::string& path, std::string_view name);
[[nodiscard]] std::string member_path(const std::string& path, std::string_view name);
[[nodiscard]] std::string element_path(const std::string& path, std::size_t index);

template <typename T>
std::string payload_fault(const boost::json::value& value, const std::string& path,
                          const boost::json::error_code& error);

/// The fault in a part, if there is one.
template <typename T>
std::optional<std::string> part_fault(const boost::json::value& value, const std::string& path) {
  const auto converted = boost::json::try_value_to<T>(value);
  std::optional<std::string> fault;
  if (converted.has_error()) {
    fault = payload_fault<T>(value, path, converted.error());
  }
  return fault;
}

template <typename T>
std::optional<std::string> member_fault(const boost::json::object& object,
                                        const std::string& path) {
  using Members = boost::describe::describe_members<T, boost::describe::mod_public |
                                                           boost::describe::mod_inherited>;
  std::optional<std::string> fault;
  boost::mp11::mp_for_each<Members>([&](auto described) {
    using Member = std::remove_cvref_t<decltype(std::declval<T&>().*decltype(described)::pointer)>;
    const boost::json::value* member = object.if_contains(described.name);
    if (fault) {
      return;
    }
    if (member == nullptr) {
      fault = missing_member(path, described.name);
    } else {
      fault = part_fault<Member>(*member, member_path(path, described.name));
    }
  });
  for (const auto& member : object) {
    bool known = false;
    boost::mp11::mp_for_each<Members>(
        [&](auto described) { known = known || member.key() == described.name; });
    if (!fault && !known) {
      fault = unknown_member(path, member.key());
    }
  }
  return fault;
}

/// Why `value` is no `T`, with the place in it: Boost.JSON says neither. `value` was refused with
/// `error`.
template <typename T>
std::string payload_fault(const boost::json::value& value, const std::string& path,
                          const boost::json::error_code& error) {
  std::optional<std::string> fault;
  if constexpr (IsOptional<T>::value) {
    fault = part_fault<typename T::value_type>(value, path);
  } else if constexpr (std::same_as<T, bool>) {
    fault = fault_at(path, "true or false", value);
  } else if constexpr (std::integral<T>) {
    fault =
        fault_at(path, value.is_number() ? "a whole number that fits" : "a whole number", value);
  } else if constexpr (std::floating_point<T>) {
    fault = fault_at(path, "a number", value);
  } else if constexpr (boost::json::is_string_like<T>::value) {
    fault = fault_at(path, "a string", value);
  } else if constexpr (boost::json::is_described_class<T>::value) {
    const boost::json::object* object = value.if_object();
    fault = object != nullptr ? member_fault<T>(*object, path) : fault_at(path, "an object", value);
  } else if constexpr (boost::json::is_map_like<T>::value) {
    const boost::json::object* object = value.if_object();
    if (object == nullptr) {
      return fault_at(path, "an object", value);
    }
    for (const auto& member : *object) {
      if (!fault) {
        fault =
            part_fault<typename T::mapped_type>(member.value(), member_path(path, member.key()));
      }
    }
  } else if constexpr (boost::json::is_sequence_like<T>::value) {
    const boost::json::array* array = value.if_array();
    if (array == nullptr) {
      return fault_at(path, "a list", value);
    }
    for (std::size_t i = 0; i < array->size() && !fault; ++i) {
      fault = part_fault<typename T::value_type>((*array)[i], element_path(path, i));
    }
  }
  return fault ? *std::move(fault) : std::string(path).append(": ").append(error.message());
}

}  // namespace holdfast::detail
