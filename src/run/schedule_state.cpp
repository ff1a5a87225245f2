// SPDX-License-Identifier: Apache-2.0
#include "schedule_state.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/store_error.hpp>

#include "cron.hpp"
#include "run_place.hpp"
#include "schedule_times.hpp"

namespace holdfast::detail {

namespace {

template <typename... Parts>
[[noreturn]] void refuse_schedule(std::string_view name, const Parts&... parts) {
  std::ostringstream text;
  text << "schedule '" << name << "': ";
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

constexpr Duration kEveryMin = std::chrono::seconds(1);
/// Of its name: what is added to it for the ids of runs must fit as well.
constexpr std::size_t kScheduleNameBytesMax = 200;

void check_words(std::string_view name, std::string_view workflow, std::string_view queue) {
  if (name.empty()) {
    throw InvalidArgument(
        "the name of a schedule is empty: give it one, by which it is found again");
  }
  if (name.size() > kScheduleNameBytesMax) {
    refuse_schedule(name, "the name has ", name.size(), " bytes; at most ", kScheduleNameBytesMax);
  }
  if (workflow.empty()) {
    refuse_schedule(name, "the workflow has no name: which one is to begin?");
  }
  if (queue.size() > kRunNameBytesMax) {
    refuse_schedule(name, "queue has ", queue.size(), " bytes; at most ", kRunNameBytesMax);
  }
}

void check_times(std::string_view name, const ScheduleSpec& spec) {
  const bool is_periodic = spec.every != Duration::zero();
  if (is_periodic == !spec.cron.empty()) {
    refuse_schedule(
        name, is_periodic ? "both cron and every are given" : "neither cron nor every is given",
        ": give one of them");
  }
  if (is_periodic && spec.every < kEveryMin) {
    refuse_schedule(name, "every is ", in_seconds(spec.every), " s: give a second or more");
  }
  if (spec.jitter < Duration::zero()) {
    refuse_schedule(name, "jitter is ", in_seconds(spec.jitter),
                    " s: a time is put off, and never brought forward; give zero or more");
  }
  if (is_periodic && spec.jitter > spec.every) {
    refuse_schedule(name, "jitter is ", in_seconds(spec.jitter), " s, and every ",
                    in_seconds(spec.every), " s: it must not be longer than that");
  }
  if (spec.grace < Duration::zero()) {
    refuse_schedule(name, "grace is ", in_seconds(spec.grace), " s: give zero or more");
  }
  if (spec.missed_max == 0 || spec.missed_max > kScheduleQueueMax) {
    refuse_schedule(name, "missed_max is ", spec.missed_max, ": give 1 to ", kScheduleQueueMax);
  }
  if (spec.from && spec.until && *spec.from >= *spec.until) {
    refuse_schedule(name, "from is ", text_of_time(ns_of_wall(*spec.from)), ", and until ",
                    text_of_time(ns_of_wall(*spec.until)), ": there is no time between them");
  }
  try {
    static_cast<void>(CronTimes(is_periodic ? "* * * * *" : spec.cron, spec.zone));
  } catch (const InvalidArgument& error) {
    refuse_schedule(name, error.what());
  }
}

template <typename Value, std::size_t kCount>
using Words = std::array<std::pair<Value, std::string_view>, kCount>;

constexpr Words<Overlap, 4> kOverlapWords{{{Overlap::kSkip, "skip"},
                                           {Overlap::kQueue, "queue"},
                                           {Overlap::kCancelRunning, "cancel_running"},
                                           {Overlap::kAllow, "allow"}}};
constexpr Words<Missed, 3> kMissedWords{
    {{Missed::kSkip, "skip"}, {Missed::kRunLast, "run_last"}, {Missed::kRunAll, "run_all"}}};
constexpr Words<RunState, 3> kStateWords{{{RunState::kRunning, "running"},
                                          {RunState::kCompleted, "completed"},
                                          {RunState::kFailed, "failed"}}};

template <typename Value, std::size_t kCount>
std::string_view word_in(const Words<Value, kCount>& words, Value value) {
  const auto found = std::ranges::find(words, value, &Words<Value, kCount>::value_type::first);
  HOLDFAST_CHECK(found != words.end(), "a value of a schedule has no word");
  return found->second;
}
template <typename Value, std::size_t kCount>
Value value_in(const Words<Value, kCount>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word, &Words<Value, kCount>::value_type::second);
  if (found == words.end()) {
    throw NewerFormat("a schedule has '" + std::string(word) +
                      "', which is of a later version of Holdfast; use a newer one");
  }
  return found->first;
}

std::optional<std::int64_t> ns_if_any(const std::optional<WallTime>& time) {
  return time ? std::optional(ns_of_wall(*time)) : std::nullopt;
}
std::optional<WallTime> wall_if_any(const std::optional<std::int64_t>& ns) {
  return ns ? std::optional(wall_of(*ns)) : std::nullopt;
}

}  // namespace

ScheduleDefinition checked_definition(std::string_view name, std::string_view workflow,
                                      boost::json::value input, const ScheduleSpec& spec) {
  check_words(name, workflow, spec.queue);
  check_times(name, spec);
  ScheduleDefinition definition;
  definition.name = name;
  definition.workflow = workflow;
  definition.input = std::move(input);
  definition.cron = spec.cron;
  definition.zone = spec.zone;
  definition.every_ns = spec.every.count();
  definition.jitter_ns = spec.jitter.count();
  definition.overlap = word_of(spec.overlap);
  definition.missed = word_of(spec.missed);
  definition.missed_max = spec.missed_max;
  definition.grace_ns = spec.grace.count();
  definition.from_ns = ns_if_any(spec.from);
  definition.until_ns = ns_if_any(spec.until);
  definition.queue = spec.queue;
  return definition;
}

ScheduleTerms terms_of(const ScheduleDefinition& definition) {
  ScheduleTerms terms;
  terms.cron = definition.cron;
  terms.zone = definition.zone;
  terms.every = Duration(definition.every_ns);
  terms.jitter = Duration(definition.jitter_ns);
  terms.overlap = overlap_of(definition.overlap);
  terms.missed = missed_of(definition.missed);
  terms.missed_max = definition.missed_max;
  terms.grace = Duration(definition.grace_ns);
  terms.from = wall_if_any(definition.from_ns);
  terms.until = wall_if_any(definition.until_ns);
  terms.queue = definition.queue;
  return terms;
}

std::string_view word_of(Overlap overlap) { return word_in(kOverlapWords, overlap); }
Overlap overlap_of(std::string_view word) { return value_in(kOverlapWords, word); }
std::string_view word_of(Missed missed) { return word_in(kMissedWords, missed); }
Missed missed_of(std::string_view word) { return value_in(kMissedWords, word); }
std::string_view word_of(RunState state) { return word_in(kStateWords, state); }
RunState run_state_of(std::string_view word) { return value_in(kStateWords, word); }

}  // namespace holdfast::detail
