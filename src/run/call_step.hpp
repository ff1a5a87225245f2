// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <functional>
#include <string>

#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

/// Which step of which run is to be done.
struct CalledStep {
  const std::string& name;
  const std::string& run_id;
  const std::string& workflow;
  const boost::json::value& run_input;
};

/// One attempt of a step. All that it is given outlives it.
using CallStep = std::function<Task<boost::json::value>(CalledStep called, StepCode& code,
                                                        StepContext& context)>;

}  // namespace holdfast::detail
