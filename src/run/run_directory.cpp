// SPDX-License-Identifier: Apache-2.0
#include "run_directory.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>
#include <holdfast/gate_inspection.hpp>

#include "gate/session_rules.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"
#include "state/cell_key.hpp"

namespace holdfast::detail {

namespace {

constexpr std::size_t kRowsRead = 1'000;
/// Rows that are erased in one commit.
constexpr std::size_t kRowsErased = 500;

bool matches(const RunSearch& search, const RunInfo& info) {
  if (search.attribute) {
    const auto found = info.attributes.find(search.attribute->first);
    if (found == info.attributes.end() || found->second != search.attribute->second) {
      return false;
    }
  }
  return (search.type.empty() || info.type == search.type) &&
         (!search.state || info.state == *search.state) &&
         (search.parent_id.empty() || info.parent_id == search.parent_id);
}

/// Steps that have begun and not ended, by their numbers.
std::map<std::uint64_t, OpenStep> open_steps_of(const std::vector<record::Activation>& journal) {
  std::map<std::uint64_t, OpenStep> open;
  std::uint64_t number = 0;
  for (const record::Activation& row : journal) {
    for (const record::RunEvent& event : row.events()) {
      if (event.kind() == record::RunEvent::STEP_ENDED) {
        open.erase(event.operation());
      }
    }
    for (const record::RunOperation& operation : row.operations()) {
      if (operation.kind() == record::RunOperation::STEP) {
        open[number].name = operation.name();
      }
      ++number;
    }
  }
  return open;
}

/// As the rule says that does not let it in.
std::string why_queued(const GateInfo& gate, const std::string& id) {
  const auto waiter = std::ranges::find(gate.waiters, id, &GateWaiterInfo::holder);
  return waiter == gate.waiters.end()
             ? std::to_string(gate.waiter_count) + " are queued, and it is far behind"
             : to_string(waiter->why);
}

}  // namespace

Task<std::optional<RunRow>> read_run(Store& store, RunPlace place, Read read) {
  const std::string key = PartitionKeys(place.queue, place.partition).run(place.uid);
  const std::optional<Entry> row = co_await store.get(key, read);
  std::optional<RunRow> run;
  if (row) {
    run.emplace(RunRow{std::move(place), read_run_head(*row), row->version});
  }
  co_return run;
}

Task<std::optional<RunRow>> find_run(Store& store, std::string id, Read read) {
  std::optional<RunRow> run;
  if (std::optional<RunPlace> place = place_in_id(id)) {
    run = co_await read_run(store, *std::move(place), read);
    if (!run || run->head.state() != record::RunHead::CONTINUED) {
      co_return run;
    }
  }
  const std::optional<Entry> name = co_await store.get(run_id_key(id), read);
  if (name) {
    run = co_await read_run(store, place_of(read_row<record::RunName>(*name, "the name").place()),
                            read);
  }
  co_return run;
}

Task<std::optional<RunRow>> find_named(Store& store, std::string name_key, Batch& batch) {
  const std::optional<Entry> name = co_await store.get(name_key, Read::kApplied);
  std::optional<RunRow> run;
  if (name) {
    run = co_await read_run(store, place_of(read_row<record::RunName>(*name, "the name").place()),
                            Read::kApplied);
    batch.require_version(std::move(name_key), name->version);
  } else {
    batch.require_absent(std::move(name_key));
  }
  co_return run;
}

Task<std::vector<record::Activation>> read_journal(Store& store, RunRow run) {
  std::vector<record::Activation> rows;
  if (run.head.has_first()) {
    rows.push_back(run.head.first());
  }
  const std::string prefix =
      PartitionKeys(run.place.queue, run.place.partition).journal(run.place.uid);
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead};
    const Page page = co_await store.scan(prefix, next);
    for (const Entry& entry : page.entries) {
      after = entry.key;
      if (!read_journal_key(entry.key, prefix).is_attempts) {
        rows.push_back(read_row<record::Activation>(entry, "the journal row"));
      }
    }
    more = page.more;
  }
  if (run.head.has_last()) {
    rows.push_back(run.head.last());
  }
  co_return rows;
}

Task<RecordedRun> record_run(Store& store, std::string id) {
  const std::optional<RunRow> run = co_await find_run(store, id);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + store.url());
  }
  const record::RunHead& head = run->head;
  RecordedRun recorded;
  recorded.id = id_of(head, run->place);
  recorded.type = head.type();
  recorded.input = parse_payload(head.input());
  recorded.uid = run->place.uid;
  recorded.root_id = head.root_id();
  recorded.root_uid = root_uid_of(head, run->place);
  recorded.random_uid = head.random_uid();
  recorded.parent_id = head.parent().id();
  recorded.started_at = seen_start_of(head);
  recorded.requests_done.assign(head.requests().begin(), head.requests().end());
  for (const record::RunAnswer& answer : head.answers()) {
    recorded.answers.push_back(answer.SerializeAsString());
  }
  const std::vector<record::Activation> journal = co_await read_journal(store, *run);
  for (const record::Activation& row : journal) {
    recorded.rows.push_back(row.SerializeAsString());
  }
  co_return recorded;
}

Task<RunInfo> describe_run(Store& store, RunRow run) {
  std::vector<record::Activation> journal;
  if (!has_ended(run.head)) {
    journal = co_await read_journal(store, run);
  }
  RunInfo info = co_await describe_run(store, run, journal);
  co_return info;
}

Task<RunInfo> describe_run(Store& store, const RunRow& run,
                           const std::vector<record::Activation>& journal) {
  RunInfo info = info_of(run.head, run.place);
  const PartitionKeys keys(run.place.queue, run.place.partition);
  const std::optional<Entry> parked = co_await store.get(keys.parked(run.place.uid));
  if (parked) {
    info.parked = read_row<record::RunParked>(*parked, "the run").reason();
  }
  if (has_ended(run.head)) {
    co_return info;
  }
  if (info.queued) {
    const std::optional<GateInfo> gate = co_await inspect_gate(store, info.queued->gate, kRowsRead);
    info.queued->why = gate ? why_queued(*gate, info.id) : std::string();
  }
  for (auto& [number, step] : open_steps_of(journal)) {
    const std::optional<Entry> row = co_await store.get(keys.attempts(run.place.uid, number));
    if (row) {
      const auto attempts = read_row<record::RunAttempts>(*row, "the step");
      step.attempts_failed = attempts.failed();
      step.failure = attempts.failure().message();
      if (attempts.due_ns() != 0) {
        step.next_at = time_of(attempts.due_ns());
      }
      if (!attempts.waiter_key().empty()) {
        const std::optional<Entry> waiter = co_await store.get(attempts.waiter_key());
        step.waits = waiter.has_value();
      }
    }
    info.open_steps.push_back(std::move(step));
  }
  co_return info;
}

RunSearch::RunSearch(const RunFilter& filter)
    : type(filter.type),
      queue(filter.queue),
      state(filter.state),
      parent_id(filter.parent_id),
      after(filter.after),
      limit(filter.limit) {
  if (limit == 0) {
    throw InvalidArgument("RunFilter::limit is 0: a page has at least one run");
  }
  if (filter.attribute) {
    attribute.emplace(filter.attribute->name, filter.attribute->value);
  }
}

Task<RunPage> list_runs(Store& store, RunSearch search) {
  const std::string prefix = search.queue.empty() ? std::string(kRunPrefix) : runs_of(search.queue);
  RunPage found;
  std::string after = search.after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead};
    const Page page = co_await store.scan(prefix, next);
    more = page.more;
    for (const Entry& entry : page.entries) {
      RunInfo info = info_of(read_run_head(entry), place_in_run_key(entry.key));
      if (!matches(search, info)) {
        continue;
      }
      if (found.runs.size() == search.limit) {
        found.next = after;
        co_return found;
      }
      after = entry.key;
      found.runs.push_back(std::move(info));
    }
    if (!page.entries.empty()) {
      after = page.entries.back().key;
    }
  }
  co_return found;
}

namespace {

Task<void> purge_run(Store& store, RunRow run) {
  const PartitionKeys keys(run.place.queue, run.place.partition);
  const std::string journal = keys.journal(run.place.uid);
  for (bool more = true; more;) {
    const Page page = co_await store.scan(journal, {.limit = kRowsErased, .read = Read::kApplied});
    more = page.more;
    Batch rows;
    for (const Entry& entry : page.entries) {
      rows.erase(entry.key);
    }
    if (rows.size() > 0) {
      static_cast<void>(co_await store.apply(std::move(rows)));
    }
  }
  // The head goes last, so that what is left of a run can be found again.
  Batch last;
  last.require_version(keys.run(run.place.uid), run.version).erase(keys.run(run.place.uid));
  std::vector<std::string> names{run_id_key(id_of(run.head, run.place))};
  std::ranges::transform(run.head.start_keys(), std::back_inserter(names), start_key_key);
  for (const std::string& key : names) {
    const std::optional<Entry> name = co_await store.get(key, Read::kApplied);
    if (name && place_of(read_row<record::RunName>(*name, "the name").place()) == run.place) {
      last.require_version(key, name->version).erase(key);
    }
  }
  static_cast<void>(co_await store.apply(std::move(last)));
}

/// Of trees of runs, by the uids of those at the top, of which nobody is left.
Task<void> purge_cells(Store& store, std::set<std::string> roots) {
  std::string after;
  for (bool more = !roots.empty(); more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead, .read = Read::kApplied};
    const Page page = co_await store.scan(kRunPrefix, next);
    more = page.more;
    for (const Entry& entry : page.entries) {
      after = entry.key;
      roots.erase(root_uid_of(read_run_head(entry), place_in_run_key(entry.key)));
    }
  }
  for (const std::string& root : roots) {
    const std::string cells = scope_prefix("execution", root);
    for (bool more = true; more;) {
      const Page page = co_await store.scan(cells, {.limit = kRowsErased, .read = Read::kApplied});
      more = page.more;
      Batch batch;
      for (const Entry& entry : page.entries) {
        batch.erase(entry.key);
      }
      if (batch.size() > 0) {
        static_cast<void>(co_await store.apply(std::move(batch)));
      }
    }
  }
}

/// Answers that nobody takes any more, as whoever asked is dead.
Task<void> purge_replies(Store& store) {
  std::map<std::string, bool> is_dead;
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsErased};
    const Page page = co_await store.scan(kReplyPrefix, next);
    more = page.more;
    Batch replies;
    for (const Entry& entry : page.entries) {
      after = entry.key;
      const std::string session = session_in_reply_key(entry.key);
      auto known = is_dead.find(session);
      if (known == is_dead.end()) {
        const std::optional<Entry> row = co_await store.get(session_key(session));
        const StoreTime now = co_await store.time();
        known = is_dead.emplace(session, liveness(row, now) != Liveness::kLive).first;
      }
      if (known->second) {
        replies.erase(entry.key);
      }
    }
    if (replies.size() > 0) {
      static_cast<void>(co_await store.apply(std::move(replies)));
    }
  }
}

}  // namespace

Task<std::size_t> purge_runs(Store& store, StoreTime before) {
  std::size_t count = 0;
  std::set<std::string> roots;  // Whose trees have cells, and may have nobody left.
  std::string after;
  for (bool more = true; more;) {
    const ScanOptions next{.after = after, .limit = kRowsRead};
    const Page page = co_await store.scan(kRunPrefix, next);
    more = page.more;
    for (const Entry& entry : page.entries) {
      after = entry.key;
      RunRow run{place_in_run_key(entry.key), read_run_head(entry), entry.version};
      if (has_ended(run.head) && time_of(run.head.ended_at_ns()) <= before) {
        const std::string root = root_uid_of(run.head, run.place);
        const std::string cells = scope_prefix("execution", root);
        const Page first = co_await store.scan(cells, {.limit = 1, .read = Read::kApplied});
        if (!first.entries.empty()) {
          roots.insert(root);
        }
        co_await purge_run(store, std::move(run));
        ++count;
      }
    }
  }
  co_await purge_cells(store, std::move(roots));
  co_await purge_replies(store);
  co_return count;
}

}  // namespace holdfast::detail
