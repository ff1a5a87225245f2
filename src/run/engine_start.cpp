// SPDX-License-Identifier: Apache-2.0
// How runs are started, by the process that drives them and by all others.
#include <algorithm>
#include <iterator>
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "engine_core.hpp"
#include "run_keys.hpp"
#include "run_message.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

void check_time(Duration time, const char* what) {
  if (time < Duration::zero()) {
    throw InvalidArgument(std::string("StartOptions::") + what + " is " +
                          std::to_string(time.count()) + " ns: a time is not below zero");
  }
}

void check_length(std::string_view text, const char* what) {
  if (text.size() > kRunNameBytesMax) {
    throw InvalidArgument(std::string(what) + " has " + std::to_string(text.size()) +
                          " bytes: at most " + std::to_string(kRunNameBytesMax));
  }
}

}  // namespace

StartTerms::StartTerms(const StartOptions& options, const std::string& own_queue)
    : id(options.id),
      on_conflict(options.on_conflict),
      start_key(options.idempotency_key),
      queue(options.queue.empty() ? own_queue : std::string(options.queue)),
      delay(options.delay),
      timeout(options.timeout),
      chain_timeout(options.chain_timeout),
      priority(options.priority) {
  check_time(delay, "delay");
  check_time(timeout, "timeout");
  check_time(chain_timeout, "chain_timeout");
  check_length(id, "StartOptions::id");
  check_length(start_key, "StartOptions::idempotency_key");
  check_length(queue, "StartOptions::queue");
  if (priority < kGatePriorityMin || priority > kGatePriorityMax) {
    throw InvalidArgument("StartOptions::priority is " + std::to_string(priority) + ": give " +
                          std::to_string(kGatePriorityMin) + " to " +
                          std::to_string(kGatePriorityMax));
  }
  if (place_in_id(id)) {
    throw InvalidArgument("StartOptions::id is '" + id +
                          "', which looks like an id that is made here: choose another one");
  }
  for (const RunAttribute& attribute : options.attributes) {
    check_length(attribute.name, "the name of an attribute");
    attributes.emplace(attribute.name, attribute.value);
  }
}

// --- Starts --------------------------------------------------------------------------------------

namespace {

record::RunHead head_of(const std::string& type, const boost::json::value& input,
                        const StartTerms& terms, StoreTime now) {
  record::RunHead head;
  head.set_format(kRunFormat);
  head.set_type(type);
  head.set_input(payload_text(input, "input"));
  head.set_started_at_ns(ns_of(now));
  // What is empty need not be set: that would cost a place for it.
  if (!terms.id.empty()) {
    head.set_id(terms.id);
  }
  if (!terms.start_key.empty() && terms.keeps_start_key) {
    head.add_start_keys(terms.start_key);
  }
  head.set_timeout_ns(terms.timeout.count());
  head.set_priority(terms.priority);
  for (const auto& [name, value] : terms.attributes) {
    (*head.mutable_attributes())[name] = value;
  }
  if (terms.delay > Duration::zero()) {
    head.set_starts_at_ns(ns_of(now + terms.delay));
  }
  if (terms.chain_timeout > Duration::zero()) {
    head.set_chain_deadline_ns(ns_of(now + terms.delay + terms.chain_timeout));
  }
  head.set_deadline_ns(deadline_of(head));
  return head;
}

/// Whether the run got the signal that was sent with this request, itself or before it went on as
/// this one.
Task<bool> was_given(Store& store, RunRow run, std::string request) {
  const auto is_it = [&](const record::RunEvent& event) {
    return event.kind() == record::RunEvent::SIGNALLED && event.request() == request;
  };
  if (request.empty()) {
    co_return false;
  }
  bool is_known = std::ranges::find(run.head.requests(), request) != run.head.requests().end() ||
                  std::ranges::any_of(run.head.signals(), is_it);
  if (!is_known) {
    const std::vector<record::Activation> journal = co_await read_journal(store, std::move(run));
    is_known = std::ranges::any_of(journal, [&](const record::Activation& row) {
      return std::ranges::any_of(row.events(), is_it);
    });
  }
  co_return is_known;
}

/// Of the run to which the handle of one leads that is not let in; empty: of none. Or throws why.
std::string id_instead_of(const Entrance& entrance, const Admission& admission) {
  const WhenFull policy = admission.terms().when_full;
  const bool is_refused = entrance.outcome == Entrance::Outcome::kRefused;
  if (is_refused && policy == WhenFull::kSkip) {
    return {};
  }
  if (is_refused && policy == WhenFull::kJoin && !entrance.to_join.empty()) {
    return entrance.to_join;
  }
  std::rethrow_exception(entrance.error);
}

}  // namespace

Task<std::string> EngineCore::start(std::string type, boost::json::value input, StartTerms terms,
                                    std::optional<record::RunEvent> signal) {
  if (type.empty()) {
    throw InvalidArgument("the type of a workflow is empty");
  }
  std::optional<RunPlace> tried;
  for (;;) {
    // Before there is more of it than this: what waits here is in no cache when its turn comes.
    Hold turn = co_await starts_.acquire();
    std::optional<Started> started;
    if (tried) {
      started = co_await find_tried(*std::exchange(tried, std::nullopt));
    }
    if (!started) {
      started = co_await try_start(type, input, terms, signal, turn, tried);
    }
    if (started && started->version != 0) {
      co_await world_->store.until_durable(started->version);
    }
    if (started) {
      co_return std::move(started->id);
    }
  }
}

/// What was to start it was given up in the middle of the commit. If that has happened, another try
/// would find a run that goes on, and not know that it is its own.
Task<std::optional<EngineCore::Started>> EngineCore::find_tried(RunPlace place) {
  const auto read_tried = [&] { return read_run(world_->store, place, Read::kApplied); };
  std::optional<Started> started;
  try {
    const std::optional<RunRow> run = co_await read_when_not_busy(read_tried);
    if (run) {
      started.emplace();
      started->id = id_of(run->head, run->place);
      started->version = run->version;
    }
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    throw OutcomeUnknown(std::string("a run was started or not: ") + error.what());
  }
  co_return started;
}

/// Does not wait for the disk: until then all that this needs is gone, and its memory in use again.
Task<std::optional<EngineCore::Started>> EngineCore::try_start(
    const std::string& type, const boost::json::value& input, const StartTerms& terms,
    const std::optional<record::RunEvent>& signal, Hold& turn, std::optional<RunPlace>& tried) {
  Store& store = world_->store;
  const StoreTime now = co_await store.time();
  record::RunHead head = head_of(type, input, terms, now);
  if (signal) {
    *head.add_signals() = *signal;
  }
  std::optional<Started> started;
  Batch extra;
  if (!terms.id.empty() || !terms.start_key.empty()) {
    Existing existing = co_await find_existing(terms, extra);
    if (existing.same) {
      std::string id = id_of(existing.same->head, existing.same->place);
      bool is_settled = true;
      if (signal) {
        turn.release();  // That may take long.
        is_settled = co_await signal_run_of_key(*std::move(existing.same), *signal);
      }
      if (is_settled) {
        started.emplace().id = std::move(id);
      }
      co_return started;
    }
    if (existing.open) {
      turn.release();  // That may take long.
      const bool is_settled =
          co_await settle_conflict(*std::move(existing.open), terms, std::move(head));
      if (is_settled) {
        started.emplace().id = terms.id;
      }
      co_return started;
    }
  }
  const bool is_known = world_->code_of(type) != nullptr;
  std::shared_ptr<Tenure> here;
  if (is_known && terms.queue == queue() && !stopping_) {
    here = ownership_->next_tenure(starts_in_a_row());
  }
  RunPlace place{terms.queue, 0, world_->next_uid(now)};
  place.partition = here != nullptr ? here->keys().partition() : partition_for(place.uid);
  if (!terms.id.empty()) {
    extra.put(run_id_key(terms.id), name_row(place));
  }
  if (!terms.start_key.empty() && terms.keeps_start_key) {
    extra.put(start_key_key(terms.start_key), name_row(place));
  }
  std::string id = id_of(head, place);
  const Admission* const admission =
      terms.admission != nullptr ? terms.admission.get() : world_->admission_of(type);
  Entrance entrance;
  if (admission != nullptr && terms.delay == Duration::zero()) {
    const Applicant applicant{*admission, place, head};
    entrance = co_await ask_for_entrance(*world_, applicant, now);
    if (entrance.error) {
      started.emplace().id = id_instead_of(entrance, *admission);
      co_return started;
    }
    note_entrance(head, entrance, place.uid, now);
  }
  std::optional<CommitOutcome> outcome;
  if (here != nullptr) {
    tried = place;
    outcome = co_await here->start(std::move(place.uid), std::move(head), std::move(extra),
                                   std::move(entrance), now);
    if (outcome) {
      tried.reset();
    }
  } else {
    outcome = co_await start_elsewhere(std::move(place), std::move(head), std::move(extra),
                                       std::move(entrance));
  }
  if (outcome && outcome->committed() != nullptr) {
    started.emplace();
    started->id = std::move(id);
    started->version = outcome->committed()->version;
  }
  co_return started;
}

/// How many runs go into one partition before the next one has its turn. The rows of a partition
/// lie together on the disk: when many are started at once, a commit has fewer pages to write if
/// they are of few partitions. When few are, each is in another one, so that processes can share
/// them.
std::size_t EngineCore::starts_in_a_row() const noexcept {
  const std::int64_t at_once = kStartsAtOnceMax - starts_.available();
  return static_cast<std::size_t>(std::clamp<std::int64_t>(at_once / 8, 1, 32));
}

/// Runs that have the start key or the id already. `batch` is given the conditions under which
/// there are no others.
Task<EngineCore::Existing> EngineCore::find_existing(const StartTerms& terms, Batch& batch) {
  Store& store = world_->store;
  Existing existing;
  if (!terms.start_key.empty()) {
    existing.same = co_await find_named(store, start_key_key(terms.start_key), batch);
    if (existing.same) {
      co_await store.until_durable(existing.same->version);
      co_return existing;
    }
  }
  if (!terms.id.empty()) {
    existing.open = co_await find_named(store, run_id_key(terms.id), batch);
    if (existing.open && has_ended(existing.open->head)) {
      existing.open.reset();
    }
  }
  co_return existing;
}

/// For whoever drives the partition.
Task<std::optional<CommitOutcome>> EngineCore::start_elsewhere(RunPlace place,
                                                               record::RunHead&& head,
                                                               Batch&& extra, Entrance entrance) {
  const PartitionKeys there(place.queue, place.partition);
  record::RunMessage message = message_of(record::RunMessage::WAKE, {});
  message.set_uid(place.uid);
  const StoreTime now = co_await world_->store.time();
  std::string key = there.message(world_->next_uid(now));
  extra.put(there.run(place.uid), head.SerializeAsString());
  std::vector<Outgoing> messages = stop_messages(*world_, entrance, now);
  messages.push_back({std::move(place), std::move(key), std::move(message)});
  for (const Outgoing& out : messages) {
    extra.put(out.key, out.message.SerializeAsString());
  }
  extra.append(entrance.change.take_batch());
  std::optional<CommitOutcome> outcome = co_await world_->store.apply(std::move(extra));
  if (outcome->committed() == nullptr) {
    co_return outcome;
  }
  std::ranges::move(messages_of(entrance.change.committed(outcome->committed()->version)),
                    std::back_inserter(messages));
  entrance.change = {};  // Others may have their turn.
  for (Outgoing& out : messages) {
    if (const auto tenure = tenure_of(out.to)) {
      co_await bring(tenure, std::move(out.key), std::move(out.message));
    }
  }
  co_return outcome;
}

/// A run of the id goes on. True: that is the answer; false: look again.
Task<bool> EngineCore::settle_conflict(RunRow existing, const StartTerms& terms,
                                       record::RunHead head) {
  if (head.signals_size() > 0) {
    record::RunMessage message = message_of(record::RunMessage::EVENT, head.signals(0));
    *message.mutable_start() = std::move(head);
    const bool is_sent = co_await try_send(std::move(existing), std::move(message));
    co_return is_sent;
  }
  switch (terms.on_conflict) {
    case OnConflict::kUseExisting:
      co_return true;
    case OnConflict::kTerminateExisting: {
      record::RunEvent event;
      event.set_payload("another run of its id was started instead");
      const std::string key =
          PartitionKeys(existing.place.queue, existing.place.partition).run(existing.place.uid);
      Watch watch = world_->store.watch(key);
      const bool is_sent =
          co_await try_send(existing, message_of(record::RunMessage::TERMINATE, std::move(event)));
      if (is_sent) {
        for (bool ended = false; !ended;) {
          const std::optional<RunRow> now =
              co_await read_run(world_->store, existing.place, Read::kApplied);
          ended = !now || has_ended(now->head);
          if (!ended) {
            co_await watch.changed();
          }
        }
      }
      break;
    }
    case OnConflict::kFail:
      throw run_exists(terms.id, existing.head.type());
  }
  co_return false;
}

/// A run was started with the key of this start. True: it has the signal; false: look again.
Task<bool> EngineCore::signal_run_of_key(RunRow run, record::RunEvent signal) {
  bool has_it = false;
  if (!has_ended(run.head)) {
    has_it =
        co_await try_send(std::move(run), message_of(record::RunMessage::EVENT, std::move(signal)));
  } else if (run.head.state() != record::RunHead::CONTINUED) {
    const std::string text = "run '" + id_of(run.head, run.place) + "' (" + run.head.type() +
                             "), which was started with the idempotency key of this start, has "
                             "ended, and takes no signal";
    has_it = co_await was_given(world_->store, std::move(run), signal.request());
    if (!has_it) {
      throw NoSuchRun(text);
    }
  }
  co_return has_it;
}

}  // namespace holdfast::detail
