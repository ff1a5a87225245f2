// SPDX-License-Identifier: Apache-2.0
#include "run_handlers.hpp"

#include <utility>

#include <holdfast/run_error.hpp>

namespace holdfast::detail {

namespace {

template <typename Handlers>
[[noreturn]] void refuse(std::string_view run, std::string_view what, std::string_view name,
                         const Handlers& handlers) {
  std::string text("run '");
  text.append(run).append("' has no ").append(what).append(" '").append(name).append("'; it has ");
  if (handlers.empty()) {
    text.append("none");
  }
  std::string_view separator;
  for (const auto& [known, handler] : handlers) {
    text.append(separator).append("'").append(known).append("'");
    separator = ", ";
  }
  throw NoSuchHandler(text);
}

}  // namespace

void RunHandlers::on_update(std::string_view name, RunHandler handler, RunHandler validator) {
  updates_.insert_or_assign(std::string(name), Update{std::move(handler), std::move(validator)});
}

void RunHandlers::on_query(std::string_view name, RunHandler handler) {
  queries_.insert_or_assign(std::string(name), std::move(handler));
}

void RunHandlers::forget() {
  updates_.clear();
  queries_.clear();
}

RunHandlers::Update& RunHandlers::find_update(std::string_view run, std::string_view name) {
  const auto found = updates_.find(name);
  if (found == updates_.end()) {
    refuse(run, "update", name, updates_);
  }
  return found->second;
}

boost::json::value RunHandlers::update(std::string_view run, std::string_view name,
                                       boost::json::value argument) {
  return find_update(run, name).handler(std::move(argument));
}

boost::json::value RunHandlers::query(std::string_view run, std::string_view name,
                                      boost::json::value argument) {
  const auto found = queries_.find(name);
  if (found == queries_.end()) {
    refuse(run, "query", name, queries_);
  }
  return found->second(std::move(argument));
}

void RunHandlers::check_update(std::string_view run, std::string_view name,
                               boost::json::value argument) {
  Update& update = find_update(run, name);
  try {
    static_cast<void>(update.validator(std::move(argument)));
  } catch (const BadPayload&) {
    throw;
  } catch (const WrongContext&) {
    throw;
  } catch (const std::exception& error) {
    throw UpdateRefused(error.what());
  }
}

}  // namespace holdfast::detail
