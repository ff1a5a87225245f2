// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/describe/class.hpp>
#include <boost/json/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <holdfast/collected.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast::detail {

/// What the run that collects starts begins with. The terms are part of it, so that a later version
/// of the program does not change them under it.
struct CollectorInput {
  std::string target;
  std::string run_id;  ///< Of the run that it starts; if one is not enough, the others' begin so.
  std::int64_t quiet_ns = 0;
  std::int64_t wait_max_ns = 0;
  std::uint64_t size_max = 0;
  boost::json::value first;
  std::optional<std::string> first_key{};  ///< Of a start that counts once.
};
BOOST_DESCRIBE_STRUCT(CollectorInput, (),
                      (target, run_id, quiet_ns, wait_max_ns, size_max, first, first_key))

/// The update by which it gets what comes later. The answer is the id of the run that does it.
inline constexpr std::string_view kCollectedInput = "input";
/// The same for one that counts once.
inline constexpr std::string_view kCollectedOnce = "input with key";
struct CollectedStart {
  std::string key;
  boost::json::value input;
};
BOOST_DESCRIBE_STRUCT(CollectedStart, (), (key, input))

/// The workflows that collect: every engine knows them.
[[nodiscard]] const Workflow<CollectorInput, void>& debouncer();
[[nodiscard]] const Workflow<CollectorInput, void>& batcher();

}  // namespace holdfast::detail
