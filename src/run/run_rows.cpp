// SPDX-License-Identifier: Apache-2.0
#include "run_rows.hpp"

#include <algorithm>

#include "run_failure.hpp"
#include "run_gates.hpp"
#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

RunState state_of(record::RunHead::State state) {
  switch (state) {
    case record::RunHead::COMPLETED:
      return RunState::kCompleted;
    case record::RunHead::FAILED:
      return RunState::kFailed;
    case record::RunHead::CANCELLED:
      return RunState::kCancelled;
    case record::RunHead::TERMINATED:
      return RunState::kTerminated;
    case record::RunHead::TIMED_OUT:
      return RunState::kTimedOut;
    case record::RunHead::CONTINUED:
      return RunState::kContinued;
    default:
      return RunState::kRunning;
  }
}

}  // namespace

std::int64_t deadline_of(const record::RunHead& head) noexcept {
  const std::int64_t starts = std::max(head.started_at_ns(), head.starts_at_ns());
  const std::int64_t own = head.timeout_ns() == 0 ? 0 : starts + head.timeout_ns();
  const std::int64_t chain = head.chain_deadline_ns();
  return own == 0 || chain == 0 ? std::max(own, chain) : std::min(own, chain);
}

std::unordered_set<std::uint64_t> refused_children(const record::Activation& row) {
  std::unordered_set<std::uint64_t> refused;
  for (const record::RunEvent& event : row.held()) {
    if (event.kind() == record::RunEvent::CHILD_ENDED) {
      refused.insert(event.operation());
    }
  }
  return refused;
}

RunExists run_exists(const std::string& id, const std::string& type) {
  return RunExists("a run '" + id + "' (" + type +
                   ") goes on already: use it, end it, or choose another id");
}

std::string name_row(const RunPlace& place) {
  record::RunName name;
  name.set_format(kRunFormat);
  *name.mutable_place() = record_of(place);
  return name.SerializeAsString();
}

std::string reply_row(const boost::json::value& value, const std::exception_ptr& error) {
  record::RunReply reply;
  reply.set_format(kRunFormat);
  if (error) {
    *reply.mutable_failure() = failure_of(error);
  } else {
    reply.set_payload(payload_text(value));
  }
  return reply.SerializeAsString();
}

std::string id_of(const record::RunHead& head, const RunPlace& place) {
  return head.id().empty() ? id_of_place(place) : head.id();
}

std::vector<std::string> run_actors(const record::RunHead& head, std::string_view uid) {
  std::vector<std::string> actors{run_actor(uid)};
  const auto add = [&](const std::string& actor) {
    if (!actor.empty() && std::ranges::find(actors, actor) == actors.end()) {
      actors.push_back(actor);
    }
  };
  for (const record::RunHold& hold : head.holds()) {
    add(hold.actor());
  }
  std::ranges::for_each(head.parent().blocked(), add);
  return actors;
}

std::string root_uid_of(const record::RunHead& head, const RunPlace& place) {
  return head.root_uid().empty() ? place.uid : head.root_uid();
}

StoreTime seen_start_of(const record::RunHead& head) noexcept {
  return time_of(head.has_seen_started_at_ns() ? head.seen_started_at_ns() : head.started_at_ns());
}

RunInfo info_of(const record::RunHead& head, const RunPlace& place) {
  RunInfo info;
  info.id = id_of(head, place);
  info.uid = place.uid;
  info.type = head.type();
  info.queue = place.queue;
  info.parent_id = head.parent().id();
  info.root_uid = root_uid_of(head, place);
  info.state = state_of(head.state());
  info.started_at = time_of(head.started_at_ns());
  if (has_ended(head)) {
    info.ended_at = time_of(head.ended_at_ns());
  }
  info.input = parse_payload(head.input());
  info.result = parse_payload(head.result());
  info.failure = head.failure().message();
  info.failure_type = head.failure().type();
  if (!has_ended(head) && head.admission().state() == record::RunAdmission::WAITS) {
    QueuedRun& queued = info.queued.emplace();
    queued.gate = head.admission().gate();
    queued.since = time_of(head.admission().asked_at_ns());
    if (head.admission().deadline_ns() != 0) {
      queued.until = time_of(head.admission().deadline_ns());
    }
  }
  for (const auto& [name, value] : head.attributes()) {
    info.attributes.emplace(name, value);
  }
  return info;
}

std::string ending_text(const RunInfo& info) {
  std::string text = "run '" + info.id + "' (" + info.type + ") ";
  switch (info.state) {
    case RunState::kCancelled:
      return text.append("was cancelled");
    case RunState::kTerminated:
      return text.append("was terminated: ").append(info.failure);
    case RunState::kTimedOut:
      return text.append("took too long: ").append(info.failure);
    default:
      return text.append("failed: ").append(info.failure);
  }
}

}  // namespace holdfast::detail
