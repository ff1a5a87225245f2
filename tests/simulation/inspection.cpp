// SPDX-License-Identifier: Apache-2.0
#include "inspection.hpp"

#include <algorithm>
#include <utility>

#include "run/permit_run.hpp"
#include "run/run_directory.hpp"
#include "run/run_keys.hpp"
#include "run/run_machine.hpp"
#include "run/run_payload.hpp"
#include "run/run_rows.hpp"
#include "run/schedule_state.hpp"
#include "run/schedule_workflow.hpp"
#include "state/envelope.hpp"

namespace holdfast::testing {

namespace {

constexpr std::size_t kAll = 1'000'000;

detail::RunMachine::Facts facts_of(const detail::RunRow& run) {
  detail::RunMachine::Facts facts;
  facts.id = detail::id_of(run.head, run.place);
  facts.type = run.head.type();
  facts.input = detail::parse_payload(run.head.input());
  facts.uid = run.place.uid;
  facts.root_id = run.head.root_id();
  facts.root_uid = detail::root_uid_of(run.head, run.place);
  facts.random_uid = run.head.random_uid();
  facts.parent_id = run.head.parent().id();
  facts.requests_done.assign(run.head.requests().begin(), run.head.requests().end());
  facts.answers.assign(run.head.answers().begin(), run.head.answers().end());
  facts.started_at = detail::seen_start_of(run.head);
  return facts;
}

std::shared_ptr<const detail::WorkflowCode> code_of(std::string_view type, Store& store) {
  if (type == detail::kPermitType) {
    return detail::permit_workflow().code();
  }
  if (type == detail::kScheduleType) {
    return detail::schedule_code(std::make_shared<SystemWallClock>(), store);
  }
  if (type == gather_workflow().name()) {
    return gather_workflow().code();
  }
  const bool is_beat = type.starts_with(beat_workflow(false).name());
  return is_beat ? beat_workflow(false).code() : play_workflow().code();
}

/// By fresh code. What does not fit; empty: all does.
std::string replay(const detail::RunRow& run, const std::vector<record::Activation>& journal,
                   Store& store) {
  const std::shared_ptr<const detail::WorkflowCode> code = code_of(run.head.type(), store);
  detail::RunMachine machine(*code, facts_of(run));
  std::optional<detail::RunEnd> end;
  try {
    for (const record::Activation& row : journal) {
      detail::Activated activated = machine.replay(row);
      if (activated.end) {
        end = std::move(activated.end);
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  if (run.head.state() == record::RunHead::COMPLETED &&
      (!end || detail::payload_text(end->value) != run.head.result())) {
    return "run '" + run.place.uid + "' ends otherwise when it is replayed";
  }
  return {};
}

/// The kinds of what is in a row of a journal, for people.
std::string text_of(const record::Activation& row) {
  std::string text = " at " + std::to_string(row.now_ns() / 1'000'000) + " ms, events";
  for (const record::RunEvent& event : row.events()) {
    text.append(" ").append(std::to_string(event.kind())).append(":");
    text.append(std::to_string(event.operation()));
  }
  text.append(", operations");
  for (const record::RunOperation& operation : row.operations()) {
    text.append(" ").append(std::to_string(operation.kind()));
  }
  text.append(", held ").append(std::to_string(row.held_size()));
  return text;
}

}  // namespace

std::vector<Entry> Inspection::rows(const std::string& prefix) {
  const ScanOptions all{.limit = kAll};
  return sync_wait(executor_, store_.scan(prefix, all)).entries;
}

std::vector<std::string> Inspection::open_runs() {
  std::vector<std::string> open;
  for (const Entry& entry : rows(std::string(detail::kRunPrefix))) {
    const record::RunHead head = detail::read_run_head(entry);
    if (!detail::has_ended(head)) {
      open.push_back(entry.key + (head.id().empty() ? "" : " (" + head.id() + ")"));
    }
  }
  return open;
}

std::vector<std::string> Inspection::find_faults() {
  faults_ = world_.faults;
  faults_.insert(faults_.end(), world_.bodies.faults.begin(), world_.bodies.faults.end());
  read_runs();
  check_ends();
  check_replays();
  check_effects();
  check_pushes();
  check_gathered();
  for (const char* prefix : {"timer/", "inbox/", "parked/", "unattended/", "wait/"}) {
    check_no_rows(prefix);
  }
  for (const Entry& entry : rows("gate/")) {
    if (entry.key.find("/holder/") != std::string::npos ||
        entry.key.find("/waiter/") != std::string::npos) {
      fault("left behind: " + entry.key);
    }
  }
  for (const Entry& entry : rows(std::string(detail::kJournalPrefix))) {
    if (entry.key.find('~') != std::string::npos) {
      fault("left behind: " + entry.key);
    }
  }
  return std::move(faults_);
}

std::vector<std::string> Inspection::find_leftovers() {
  faults_.clear();
  for (const char* prefix :
       {"run/", "journal/", "run_id/", "start_key/", "reply/", "cell/execution/"}) {
    check_no_rows(prefix);
  }
  return std::move(faults_);
}

void Inspection::check_no_rows(const std::string& prefix) {
  for (const Entry& entry : rows(prefix)) {
    fault("left behind: " + entry.key);
  }
}

void Inspection::read_runs() {
  for (const Order& order : orders_) {
    const std::optional<detail::RunRow> run =
        sync_wait(executor_, detail::find_run(store_, order.id));
    if (run) {
      last_.emplace(order.id, detail::info_of(run->head, run->place));
    } else {
      fault("run " + order.id + ", whose start was acknowledged, does not exist");
    }
  }
}

void Inspection::check_ends() {
  for (const Order& order : orders_) {
    const auto found = last_.find(order.id);
    if (found == last_.end()) {
      continue;
    }
    const RunInfo& info = found->second;
    const bool is_completed = info.state == RunState::kCompleted;
    if (is_completed && info.result != boost::json::value(order.expected.result)) {
      fault("run " + order.id + " has the result " + detail::payload_text(info.result) +
            " instead of " + std::to_string(order.expected.result));
    }
    if (order.fate == Order::Fate::kResult && !is_completed) {
      fault("run " + order.id + " was to be completed: " + detail::ending_text(info));
    }
  }
}

void Inspection::check_replays() {
  for (const Entry& entry : rows(std::string(detail::kRunPrefix))) {
    const detail::RunRow run{detail::place_in_run_key(entry.key), detail::read_run_head(entry),
                             entry.version};
    const auto journal = sync_wait(executor_, detail::read_journal(store_, run));
    if (journal.size() != run.head.rows()) {
      fault("run '" + run.place.uid + "' has " + std::to_string(journal.size()) +
            " rows in its journal instead of " + std::to_string(run.head.rows()));
    }
    const std::string misfit = replay(run, journal, store_);
    if (!misfit.empty()) {
      fault(misfit);
    }
  }
}

/// How often what has a label may be done: a run that is reset does some of it again.
std::map<int, int> Inspection::times_that_may_be() const {
  std::map<int, int> times;
  for (const Order& order : orders_) {
    const auto resets = world_.resets.find(order.id);
    const int most = 1 + (resets == world_.resets.end() ? 0 : resets->second);
    const Expected& of = order.expected;
    for (const auto* labels :
         {&of.effects, &of.possible_effects, &of.pushes, &of.possible_pushes}) {
      for (const int label : *labels) {
        times[label] = most;
      }
    }
  }
  return times;
}

/// Each at least once, and always with the same key.
void Inspection::check_effects() {
  std::map<int, int> times = times_that_may_be();
  for (const Order& order : orders_) {
    const auto found = last_.find(order.id);
    const bool is_completed = found != last_.end() && found->second.state == RunState::kCompleted;
    for (const int label : order.expected.effects) {
      if (is_completed && !world_.effects.contains(label)) {
        fault("step " + std::to_string(label) + " of run " + order.id + " was never done");
      }
    }
    const bool cleans_up = found != last_.end() && found->second.state == RunState::kCancelled &&
                           found->second.failure != "before it began";
    if (cleans_up && !world_.effects.contains(order.program.cleanup)) {
      fault("run " + order.id + " was cancelled, and has not cleaned up");
    }
  }
  for (const auto& [label, keys] : world_.effects) {
    if (!times.contains(label)) {
      fault("step " + std::to_string(label) + " was done, and is of no program");
    }
    const bool may_begin_early = label % 5 == 0;
    if (keys.size() > static_cast<std::size_t>(times[label]) && !may_begin_early) {
      fault("step " + std::to_string(label) + " was done with " + std::to_string(keys.size()) +
            " keys");
    }
  }
}

/// Each once.
void Inspection::check_pushes() {
  std::map<int, int> counts;
  for (const Entry& entry : rows("cell/global/")) {
    const boost::json::value labels = detail::Envelope(entry).value();
    for (const boost::json::value& label : labels.as_array()) {
      ++counts[label.to_number<int>()];
    }
  }
  std::map<int, int> times = times_that_may_be();
  for (const Order& order : orders_) {
    const auto found = last_.find(order.id);
    if (found == last_.end() || found->second.state != RunState::kCompleted) {
      continue;
    }
    for (const int label : order.expected.pushes) {
      if (!counts.contains(label)) {
        fault("change " + std::to_string(label) + " of state by run " + order.id + " is lost");
      }
    }
  }
  for (const auto& [label, count] : counts) {
    if (count > times[label]) {
      fault("change " + std::to_string(label) + " of state is there " + std::to_string(count) +
            " times");
    }
  }
}

/// Each once, and once more at most for each attempt to send it whose outcome nobody knows.
void Inspection::check_gathered() {
  std::map<std::int64_t, int> counts;
  for (const Entry& entry : rows("cell/workflow/")) {
    const boost::json::value values = detail::Envelope(entry).value();
    for (const boost::json::value& value : values.as_array()) {
      ++counts[value.to_number<std::int64_t>()];
    }
  }
  for (const Gathering& gathering : gatherings_) {
    for (const auto& [value, unknown] : gathering.unknown) {
      const auto found = counts.find(value);
      const int count = found == counts.end() ? 0 : found->second;
      if (count < 1 || count > 1 + unknown) {
        fault("signal " + std::to_string(value) + " to run " + gathering.id + " came " +
              std::to_string(count) + " times, and " + std::to_string(unknown) +
              " attempts to send it may have happened beside the one that did");
      }
    }
  }
}

std::string Inspection::dump() {
  std::string text;
  for (const Entry& entry : rows("")) {
    text.append("  ").append(entry.key);
    if (entry.key.starts_with(detail::kRunPrefix)) {
      const record::RunHead head = detail::read_run_head(entry);
      text.append(" state ").append(std::to_string(head.state()));
      text.append(head.waits() ? " waits " : " has work ").append(head.id());
      text.append(text_of(head.first()));
    } else if (entry.key.starts_with(detail::kJournalPrefix) &&
               entry.key.find('~') == std::string::npos) {
      record::Activation row;
      static_cast<void>(row.ParseFromString(entry.value));
      text.append(text_of(row));
    }
    text.append("\n");
  }
  return text;
}

}  // namespace holdfast::testing
