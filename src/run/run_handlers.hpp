// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include <holdfast/detail/run_handler.hpp>

namespace holdfast::detail {

/// The updates and queries that a run answers.
class RunHandlers {
 public:
  void on_update(std::string_view name, RunHandler handler, RunHandler validator);
  void on_query(std::string_view name, RunHandler handler);
  /// What they refer to is about to go.
  void forget();

  /// Throw `NoSuchHandler`, and what the handler throws; `run` names the run in the message.
  [[nodiscard]] boost::json::value update(std::string_view run, std::string_view name,
                                          boost::json::value argument);
  [[nodiscard]] boost::json::value query(std::string_view run, std::string_view name,
                                         boost::json::value argument);
  /// Throws `BadPayload`, or `UpdateRefused` with what the validator says.
  void check_update(std::string_view run, std::string_view name, boost::json::value argument);

 private:
  struct Update {
    RunHandler handler;
    RunHandler validator;
  };
  [[nodiscard]] Update& find_update(std::string_view run, std::string_view name);

  std::map<std::string, Update, std::less<>> updates_;
  std::map<std::string, RunHandler, std::less<>> queries_;
};

}  // namespace holdfast::detail
