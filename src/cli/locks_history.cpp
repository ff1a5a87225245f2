// SPDX-License-Identifier: Apache-2.0
#include "locks_history.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/gate_control.hpp>
#include <holdfast/gate_inspection.hpp>

#include "duration.hpp"
#include "escape.hpp"
#include "lock_facts.hpp"
#include "lock_json.hpp"
#include "party.hpp"
#include "table.hpp"

namespace holdfast::cli {

namespace {

/// Something that happened to a lock.
struct Event {
  StoreTime at{};
  Row row;
  std::string json;
};

std::string end_text(const GateGrantInfo& grant) {
  std::string text(to_string(grant.end));
  return grant.ended_by.empty() ? text : text.append(" by ").append(one_line(grant.ended_by));
}

Event event_of(const GateGrantInfo& grant, StoreTime now) {
  return {.at = grant.ended_at,
          .row = {duration_text(now - grant.ended_at), short_name(party_of(grant)),
                  "held, " + end_text(grant), std::to_string(grant.fence),
                  duration_text(grant.granted_at - grant.asked_at),
                  duration_text(grant.ended_at - grant.granted_at), one_line(grant.reason)},
          .json = json_grant(grant, now)};
}

Event event_of(const OperatorChangeInfo& change, StoreTime now) {
  return {.at = change.at,
          .row = {duration_text(now - change.at), one_line(change.by), one_line(change.what), "",
                  "", "", one_line(change.reason)},
          .json = json_change(change, now)};
}

template <typename Record>
std::vector<Event> events_of(const std::vector<Record>& records, StoreTime now) {
  std::vector<Event> events;
  events.reserve(records.size());
  for (const Record& record : records) {
    events.push_back(event_of(record, now));
  }
  return events;
}

void print_events(Terminal& terminal, const LocksArgs& args, const std::vector<Event>& events) {
  std::vector<Row> rows{{"AGO", "WHO", "WHAT", "FENCE", "WAITED", "HELD", "REASON"}};
  std::vector<std::string> objects;
  for (const Event& event : events) {
    rows.push_back(event.row);
    objects.push_back(event.json);
  }
  switch (args.output) {
    case Output::kTable:
      if (events.empty()) {
        terminal.line("nothing yet");
      } else {
        print_table(terminal, rows);
      }
      break;
    case Output::kJson:
      terminal.line(
          json_object({{"name", json_string(args.name)}, {"history", json_array(objects)}}));
      break;
    case Output::kJsonLines:
      for (const std::string& object : objects) {
        terminal.line(object);
      }
      break;
  }
}

}  // namespace

Task<ExitCode> show_history(Terminal& terminal, const LocksArgs& args, Store& store) {
  const std::optional<GateInfo> gate = co_await inspect_gate(store, args.name, 1);
  if (!gate) {
    const ExitCode code = co_await tell_no_such_lock(&store, args.name);
    co_return code;
  }
  std::vector<GateGrantInfo> grants;
  if (!args.only_changes) {
    grants = co_await gate_history(store, args.name);
  }
  const std::vector<OperatorChangeInfo> changes = co_await operator_changes(store, args.name);
  const StoreTime now = co_await store.time();
  std::vector<Event> events;
  std::ranges::merge(events_of(changes, now), events_of(grants, now), std::back_inserter(events),
                     std::greater{}, &Event::at, &Event::at);
  events.resize(std::min(events.size(), args.limit));
  print_events(terminal, args, events);
  co_return kOk;
}

}  // namespace holdfast::cli
