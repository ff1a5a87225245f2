// SPDX-License-Identifier: Apache-2.0
// How a run is reset: another one goes on in its place, from an earlier row of its journal.
#include <map>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>

#include "engine_core.hpp"
#include "run_keys.hpp"
#include "run_message.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

/// A child that is under way at this point of the journal, if there is one.
std::optional<std::string> open_child(const std::vector<record::Activation>& rows) {
  std::map<std::uint64_t, std::string> open;
  std::uint64_t number = 0;
  for (const record::Activation& row : rows) {
    for (const record::RunEvent& event : row.events()) {
      if (event.kind() == record::RunEvent::CHILD_ENDED) {
        open.erase(event.operation());
      }
    }
    for (const record::RunOperation& operation : row.operations()) {
      if (operation.kind() == record::RunOperation::CHILD) {
        open.emplace(number, operation.name());
      }
      ++number;
    }
    for (const std::uint64_t refused : refused_children(row)) {
      open.erase(refused);
    }
  }
  std::optional<std::string> child;
  if (!open.empty()) {
    child = open.begin()->second;
  }
  return child;
}

}  // namespace

Task<void> EngineCore::reset(std::string id, std::uint64_t rows, std::string reason) {
  std::optional<RunRow> run = co_await find_run(world_->store, id);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  std::vector<record::Activation> journal = co_await read_journal(world_->store, *run);
  if (rows == 0 || rows > journal.size()) {
    throw InvalidArgument("the journal of run '" + id + "' has " + std::to_string(journal.size()) +
                          " rows, so it cannot be reset to " + std::to_string(rows));
  }
  journal.resize(rows);
  if (const auto child = open_child(journal)) {
    throw InvalidArgument("run '" + id + "' cannot be reset to " + std::to_string(rows) +
                          " rows: a child ('" + *child + "') was under way there");
  }
  const PartitionKeys keys(run->place.queue, run->place.partition);
  while (!has_ended(run->head)) {
    Watch watch = world_->store.watch(keys.run(run->place.uid));
    record::RunEvent event;
    event.set_payload(reason);
    const bool is_sent =
        co_await try_send(*run, message_of(record::RunMessage::TERMINATE, std::move(event)));
    if (is_sent) {
      co_await watch.changed();
    }
    run = co_await read_run(world_->store, run->place);
    if (!run) {
      throw NoSuchRun("run '" + id + "' was purged");
    }
  }
  // Somebody else may have reset it meanwhile, or have started another run of its id.
  const std::string name_key = run_id_key(id_of(run->head, run->place));
  const std::optional<Entry> name = co_await world_->store.get(name_key, Read::kApplied);
  const bool is_last_of_name =
      name ? read_row<record::RunName>(*name, "the name").place().uid() == run->place.uid
           : run->head.state() != record::RunHead::CONTINUED;
  if (!is_last_of_name) {
    throw StoreBusy("another run goes on with the id '" + id + "' by now: try again");
  }
  const StoreTime now = co_await world_->store.time();
  const RunPlace place = keys.place_of(world_->next_uid(now));
  record::RunHead head = run->head;
  head.set_state(record::RunHead::RUNNING);
  head.set_id(id_of(run->head, run->place));
  head.set_root_uid(root_uid_of(run->head, run->place));
  if (head.random_uid().empty()) {
    head.set_random_uid(run->place.uid);
  }
  head.set_seen_started_at_ns(ns_of(seen_start_of(head)));
  head.clear_ended_at_ns();
  head.clear_result();
  head.clear_failure();
  head.clear_first();
  head.clear_last();
  head.clear_rows();
  head.clear_signals_kept();  // It is counted anew, by whoever drives it.
  head.clear_continued_as();
  head.clear_holds();  // They ended with the run.
  head.clear_admission();
  head.mutable_admission()->set_state(record::RunAdmission::OUT);
  head.set_started_at_ns(ns_of(now));
  head.set_deadline_ns(deadline_of(head));
  record::RunMessage message = message_of(record::RunMessage::WAKE, {});
  message.set_uid(place.uid);
  record::RunHead old = run->head;
  old.set_state(record::RunHead::CONTINUED);
  old.set_continued_as(place.uid);
  Batch batch;
  batch.require_version(keys.run(run->place.uid), run->version);
  if (name) {
    batch.require_version(name_key, name->version);
  } else {
    batch.require_absent(name_key);
  }
  batch.put(keys.run(run->place.uid), old.SerializeAsString());
  batch.put(keys.run(place.uid), head.SerializeAsString());
  batch.put(name_key, name_row(place));
  for (const std::string& key : head.start_keys()) {
    batch.put(start_key_key(key), name_row(place));
  }
  batch.put(keys.message(world_->next_uid(now)), message.SerializeAsString());
  for (std::uint64_t row = 0; row < rows; ++row) {
    batch.put(keys.journal_row(place.uid, row), journal[row].SerializeAsString());
  }
  const CommitOutcome outcome = co_await world_->store.commit(std::move(batch));
  if (outcome.committed() == nullptr) {
    throw StoreBusy("run '" + id + "' was changed by somebody else: try again");
  }
}

}  // namespace holdfast::detail
