// SPDX-License-Identifier: Apache-2.0
#include <holdfast/run_options.hpp>

#include <cmath>
#include <sstream>
#include <string>

#include <holdfast/run_lock.hpp>

#include "run_place.hpp"

namespace holdfast::detail {

namespace {

template <typename... Parts>
[[noreturn]] void refuse_option(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

void check_not_negative(std::string_view kind, std::string_view name, std::string_view field,
                        Duration time) {
  if (time < Duration::zero()) {
    refuse_option(kind, " '", name, "': ", field, " is ", seconds(time),
                  " s; give a time, or zero for none");
  }
}

void check_name_length(std::string_view child, std::string_view field, std::string_view name) {
  if (name.size() > kRunNameBytesMax) {
    refuse_option("child '", child, "': ", field, " has ", name.size(), " bytes; at most ",
                  kRunNameBytesMax);
  }
}

}  // namespace

void check_options(std::string_view step, const StepOptions& options) {
  const Retry& retry = options.retry;
  check_not_negative("step", step, "attempt_timeout", options.attempt_timeout);
  check_not_negative("step", step, "timeout", options.timeout);
  check_not_negative("step", step, "heartbeat_timeout", options.heartbeat_timeout);
  check_not_negative("step", step, "retry.pause_first", retry.pause_first);
  check_not_negative("step", step, "retry.pause_max", retry.pause_max);
  if (!std::isfinite(retry.factor) || retry.factor < 1.0) {
    refuse_option("step '", step, "': retry.factor is ", retry.factor,
                  "; pauses do not get shorter: give 1 or more");
  }
  if (retry.pause_first > retry.pause_max) {
    refuse_option("step '", step, "': retry.pause_first is ", seconds(retry.pause_first),
                  " s, and retry.pause_max ", seconds(retry.pause_max),
                  " s: the first pause is not longer than the longest");
  }
}

void check_transaction_options(std::string_view transaction, const StepOptions& options) {
  if (options.heartbeat_timeout != Duration::zero()) {
    refuse_option(
        "transaction '", transaction, "': heartbeat_timeout is ",
        seconds(options.heartbeat_timeout),
        " s; a transaction has no heartbeats: give zero, and an attempt_timeout if need be");
  }
  if (options.side_effect_free) {
    refuse_option(
        "transaction '", transaction,
        "': side_effect_free is true; a transaction is for its effect: use run for one without");
  }
  if (options.limit != nullptr) {
    refuse_option("transaction '", transaction, "': limit is '", options.limit->name(),
                  "'; transactions are one at a time in any case: take the limit around it, with "
                  "Context::acquire");
  }
}

void check_options(std::string_view child, const ChildOptions& options) {
  check_not_negative("child", child, "timeout", options.timeout);
  check_name_length(child, "id", options.id);
  check_name_length(child, "queue", options.queue);
  for (const std::string& key : options.idempotency_keys) {
    check_name_length(child, "an idempotency key", key);
  }
  if (options.priority < kGatePriorityMin || options.priority > kGatePriorityMax) {
    refuse_option("child '", child, "': priority is ", options.priority, "; give ",
                  kGatePriorityMin, " to ", kGatePriorityMax);
  }
  if (place_in_id(options.id)) {
    refuse_option("child '", child, "': id is '", options.id,
                  "', which looks like an id that is made here: choose another one");
  }
}

std::size_t checked_at_most(const FanOut& options) {
  if (options.at_most == 0) {
    throw InvalidArgument("all: at_most is 0, and nothing would ever begin; give 1 or more");
  }
  return options.at_most;
}

}  // namespace holdfast::detail
