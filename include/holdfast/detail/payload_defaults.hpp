// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/members.hpp>
#include <boost/json/conversion.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// Adds the members of described structs that are missing and may be, as null: so a type can get
/// new ones, and read what was written before it had them. Boost.JSON 1.81 refuses that.
template <typename T>
void add_missing_members(boost::json::value& value) {
  if constexpr (IsOptional<T>::value) {
    add_missing_members<typename T::value_type>(value);
  } else if constexpr (boost::json::is_described_class<T>::value) {
    using Members = boost::describe::describe_members<T, boost::describe::mod_public |
                                                             boost::describe::mod_inherited>;
    boost::json::object* object = value.if_object();
    if (object == nullptr) {
      return;
    }
    boost::mp11::mp_for_each<Members>([&](auto described) {
      using Member =
          std::remove_cvref_t<decltype(std::declval<T&>().*decltype(described)::pointer)>;
      if (boost::json::value* member = object->if_contains(described.name)) {
        add_missing_members<Member>(*member);
      } else if constexpr (IsOptional<Member>::value) {
        object->emplace(described.name, nullptr);
      }
    });
  } else if constexpr (boost::json::is_map_like<T>::value) {
    if (boost::json::object* object = value.if_object()) {
      for (auto& member : *object) {
        add_missing_members<typename T::mapped_type>(member.value());
      }
    }
  } else if constexpr (boost::json::is_sequence_like<T>::value &&
                       !boost::json::is_string_like<T>::value) {
    if (boost::json::array* array = value.if_array()) {
      for (boost::json::value& element : *array) {
        add_missing_members<typename T::value_type>(element);
      }
    }
  }
}

}  // namespace holdfast::detail
