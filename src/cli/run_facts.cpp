// SPDX-License-Identifier: Apache-2.0
#include "run_facts.hpp"

#include <string_view>

#include <fmt/core.h>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_json.hpp"

namespace holdfast::cli {

namespace {

std::string_view word_of(RunState state) noexcept {
  switch (state) {
    case RunState::kRunning:
      return "running";
    case RunState::kCompleted:
      return "completed";
    case RunState::kFailed:
      return "failed";
    case RunState::kCancelled:
      return "cancelled";
    case RunState::kTerminated:
      return "terminated";
    case RunState::kTimedOut:
      return "timed_out";
    case RunState::kContinued:
      return "continued";
  }
  return "unknown";
}

std::string_view word_of(RunWaitInfo::Kind kind) noexcept {
  switch (kind) {
    case RunWaitInfo::Kind::kStart:
      return "start";
    case RunWaitInfo::Kind::kTime:
      return "time";
    case RunWaitInfo::Kind::kSignal:
      return "signal";
    case RunWaitInfo::Kind::kChild:
      return "child";
    case RunWaitInfo::Kind::kLock:
      return "lock";
  }
  return "unknown";
}

/// "timed out", for people.
std::string spaced(std::string_view word) {
  std::string text(word);
  for (char& letter : text) {
    letter = letter == '_' ? ' ' : letter;
  }
  return text;
}

std::string left_until(StoreTime time, StoreTime now) { return duration_text(time - now); }

std::string text_of(const OpenStep& step, StoreTime now) {
  std::string text = fmt::format("is at step '{}'", one_line(step.name));
  if (step.attempts_failed > 0) {
    text += fmt::format(", which has failed {} {}, the last with: {}", step.attempts_failed,
                        step.attempts_failed == 1 ? "time" : "times", one_line(step.failure));
  }
  if (step.next_at) {
    text += fmt::format("; the next attempt is in {}", left_until(*step.next_at, now));
  }
  return text;
}

std::string text_of(const RunWaitInfo& wait, StoreTime now) {
  const std::string name = one_line(wait.name);
  const std::string left = wait.until ? left_until(*wait.until, now) : "";
  switch (wait.kind) {
    case RunWaitInfo::Kind::kStart:
      return wait.until ? fmt::format("begins in {}", left) : "has not begun";
    case RunWaitInfo::Kind::kTime:
      return fmt::format("waits for a time, in {}", left);
    case RunWaitInfo::Kind::kSignal:
      return fmt::format("has asked for a signal '{}', which has not come", name);
    case RunWaitInfo::Kind::kChild:
      return fmt::format("waits for its child {} ({})", name, one_line(wait.child_type));
    case RunWaitInfo::Kind::kLock:
      return fmt::format("waits for '{}'", name) +
             (wait.until ? fmt::format(", and gives up in {}", left) : "");
  }
  return "waits";
}

/// "'default': start a program whose engine has that queue, and knows 'pay'".
std::string remedy_text(const RunInfo& run) {
  return fmt::format("no process drives queue '{}': start one whose engine has it and knows '{}'",
                     one_line(run.queue), one_line(run.type));
}

std::string json_driver(const RunInspection& seen, StoreTime now) {
  return !seen.driver ? "null"
                      : json_object({{"name", json_string(seen.driver->name)},
                                     {"host", json_string(seen.driver->host)},
                                     {"pid", std::to_string(seen.driver->pid)},
                                     {"live", json_bool(seen.driver->live)},
                                     {"expires_in_ms", json_ms(seen.driver->expires - now)}});
}

std::string json_steps(const RunInfo& run, StoreTime now) {
  std::vector<std::string> steps;
  steps.reserve(run.open_steps.size());
  for (const OpenStep& step : run.open_steps) {
    steps.push_back(
        json_object({{"name", json_string(step.name)},
                     {"attempts_failed", std::to_string(step.attempts_failed)},
                     {"failure", json_string(step.failure)},
                     {"next_in_ms", step.next_at ? json_ms(*step.next_at - now) : "null"}}));
  }
  return json_array(steps);
}

std::string json_waits(const RunInspection& seen, StoreTime now) {
  std::vector<std::string> waits;
  waits.reserve(seen.waits.size());
  for (const RunWaitInfo& wait : seen.waits) {
    waits.push_back(json_object({{"kind", json_string(word_of(wait.kind))},
                                 {"name", json_string(wait.name)},
                                 {"type", json_string(wait.child_type)},
                                 {"in_ms", wait.until ? json_ms(*wait.until - now) : "null"}}));
  }
  return json_array(waits);
}

}  // namespace

std::string full_name(const RunInfo& run) {
  return fmt::format("run {} ({})", one_line(run.id), one_line(run.type));
}

std::string summary_of(const RunInspection& seen, StoreTime now) {
  const RunInfo& run = seen.run;
  const std::string word = spaced(word_of(run.state));
  if (run.ended_at) {
    return fmt::format("{} {} ago{}", word, duration_text(now - *run.ended_at),
                       run.failure.empty() ? "" : ": " + one_line(run.failure));
  }
  std::string text =
      fmt::format("{} for {}, queue '{}', partition {}", word, duration_text(now - run.started_at),
                  one_line(run.queue), seen.partition);
  if (!run.parent_id.empty()) {
    text += fmt::format(", child of {}", one_line(run.parent_id));
  }
  if (seen.deadline) {
    text += fmt::format(", has to end in {}", left_until(*seen.deadline, now));
  }
  return text;
}

bool is_driven(const RunInspection& seen) noexcept { return seen.driver && seen.driver->live; }

std::string driver_text(const RunInspection& seen) {
  if (is_driven(seen)) {
    return fmt::format("{} (process {} on {}) drives it", one_line(seen.driver->name),
                       seen.driver->pid, one_line(seen.driver->host));
  }
  std::string text = seen.driver ? fmt::format("{} (process {} on {}) drove it, and is dead; ",
                                               one_line(seen.driver->name), seen.driver->pid,
                                               one_line(seen.driver->host))
                                 : "nobody drives it; ";
  return text + (seen.engines == 0 ? remedy_text(seen.run)
                 : seen.engines == 1
                     ? std::string("the other process of its queue takes it over in a moment")
                     : fmt::format("one of the {} processes of its queue takes it over in a moment",
                                   seen.engines));
}

std::vector<RunDeed> deeds_of(const RunInspection& seen, StoreTime now) {
  std::vector<RunDeed> deeds;
  if (seen.run.ended_at) {
    return deeds;
  }
  if (!seen.run.parked.empty()) {
    deeds.push_back({"stands still: " + one_line(seen.run.parked), nullptr});
  }
  for (const OpenStep& step : seen.run.open_steps) {
    deeds.push_back({text_of(step, now), nullptr});
  }
  for (const RunWaitInfo& wait : seen.waits) {
    deeds.push_back({text_of(wait, now), &wait});
  }
  if (deeds.empty() && !is_driven(seen)) {
    deeds.push_back({"goes on as soon as somebody drives it", nullptr});
  } else if (deeds.empty()) {
    deeds.push_back(
        {"waits for nothing that the store knows of: its code is at work, or waits for "
         "a condition of its own",
         nullptr});
  }
  return deeds;
}

std::string json_run(const RunInspection& seen, StoreTime now) {
  const RunInfo& run = seen.run;
  return json_object({{"id", json_string(run.id)},
                      {"uid", json_string(run.uid)},
                      {"type", json_string(run.type)},
                      {"queue", json_string(run.queue)},
                      {"partition", std::to_string(seen.partition)},
                      {"parent", run.parent_id.empty() ? "null" : json_string(run.parent_id)},
                      {"state", json_string(word_of(run.state))},
                      {"started_ago_ms", json_ms(now - run.started_at)},
                      {"ended_ago_ms", run.ended_at ? json_ms(now - *run.ended_at) : "null"},
                      {"ends_in_ms", seen.deadline ? json_ms(*seen.deadline - now) : "null"},
                      {"failure", run.failure.empty() ? "null" : json_string(run.failure)},
                      {"parked", run.parked.empty() ? "null" : json_string(run.parked)},
                      {"driver", json_driver(seen, now)},
                      {"engines", std::to_string(seen.engines)},
                      {"steps", json_steps(run, now)},
                      {"waits_for", json_waits(seen, now)}});
}

}  // namespace holdfast::cli
