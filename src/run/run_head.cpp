// SPDX-License-Identifier: Apache-2.0
#include "run_head.hpp"

#include <holdfast/store_error.hpp>

#include "run_machine.hpp"
#include "run_payload.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

template <class Record>
Record parse(const Entry& row, const char* what) {
  Record record;
  if (!record.ParseFromString(row.value) || record.format() == 0) {
    throw StoreCorrupt(std::string(what) + " " + printable(row.key) +
                       " cannot be read: its record is damaged, or something else is stored there");
  }
  if (record.format() > kRunFormat) {
    throw NewerFormat(std::string(what) + " " + printable(row.key) + " has format " +
                      std::to_string(record.format()) + ", and this version of Holdfast knows " +
                      std::to_string(kRunFormat) + "; use a newer one");
  }
  return record;
}

RunState state_of(record::RunHead::State state) {
  switch (state) {
    case record::RunHead::COMPLETED:
      return RunState::kCompleted;
    case record::RunHead::FAILED:
      return RunState::kFailed;
    case record::RunHead::CANCELLED:
      return RunState::kCancelled;
    default:
      return RunState::kRunning;
  }
}

}  // namespace

record::RunHead read_run_head(const Entry& row) { return parse<record::RunHead>(row, "the run"); }

record::Activation read_activation(const Entry& row) {
  return parse<record::Activation>(row, "the journal row");
}

record::RunMessage read_message(const Entry& row) {
  return parse<record::RunMessage>(row, "the message to a run");
}

RunInfo info_of(std::string_view id, const record::RunHead& head) {
  RunInfo info;
  info.id = id;
  info.type = head.type();
  info.state = state_of(head.state());
  info.started_at = StoreTime(Duration(head.started_at_ns()));
  if (head.state() != record::RunHead::RUNNING) {
    info.ended_at = StoreTime(Duration(head.ended_at_ns()));
  }
  info.input = parse_payload(head.input());
  info.result = parse_payload(head.result());
  info.failure = head.failure().message();
  return info;
}

}  // namespace holdfast::detail
