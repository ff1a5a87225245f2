// SPDX-License-Identifier: Apache-2.0
// How runs are started and reached, from the process that drives them and from all others.
#include <algorithm>
#include <concepts>
#include <iterator>
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "engine_core.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
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

record::RunMessage message_of(record::RunMessage::Kind kind, record::RunEvent event) {
  record::RunMessage message;
  message.set_format(kRunFormat);
  message.set_kind(kind);
  *message.mutable_event() = std::move(event);
  return message;
}

/// The answer has been read, whatever becomes of its row.
Task<void> erase_reply(std::shared_ptr<RunWorld> world, std::string key) {
  for (bool again = true; again;) {
    again = false;
    try {
      Batch batch;
      batch.erase(key);
      static_cast<void>(co_await world->store.apply(std::move(batch)));
    } catch (const Error& error) {
      again = error.remedy() == Remedy::kTryAgain || error.remedy() == Remedy::kFindOut;
    }
    if (again) {
      co_await busy_pause();
    }
  }
}

/// However busy the store is: who asked would otherwise ask again, for what has happened.
Task<std::optional<Entry>> read_reply(Store& store, std::string key) {
  for (;;) {
    try {
      std::optional<Entry> row = co_await store.get(key);
      co_return row;
    } catch (const Error& error) {
      if (error.remedy() != Remedy::kTryAgain) {
        throw;
      }
    }
    co_await busy_pause();
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
  std::optional<Started> started;
  for (bool busy = true; busy;) {
    busy = false;
    try {
      const std::optional<RunRow> run = co_await read_run(world_->store, place, Read::kApplied);
      if (run) {
        started.emplace();
        started->id = id_of(run->head, run->place);
        started->version = run->version;
      }
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {
      busy = error.remedy() == Remedy::kTryAgain;
      if (!busy) {
        throw OutcomeUnknown(std::string("a run was started or not: ") + error.what());
      }
    }
    if (busy) {
      co_await busy_pause();
    }
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

// --- Messages ------------------------------------------------------------------------------------

Task<RunRow> EngineCore::find_open(std::string id) {
  std::optional<RunRow> run = co_await find_run(world_->store, id, Read::kApplied);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  if (has_ended(run->head)) {
    throw NoSuchRun("run '" + id + "' (" + run->head.type() + ") has ended");
  }
  co_return *std::move(run);
}

/// Before the inbox is read. It is there already, so what goes wrong here is not told to whoever
/// sent it, who would send it again.
Task<void> EngineCore::bring(std::shared_ptr<Tenure> tenure, std::string key,
                             record::RunMessage message) {
  try {
    co_await tenure->take_message(std::move(key), std::move(message));
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    // Whoever reads the inbox next takes it.
  }
}

/// On condition that the run goes on. False: it has changed.
Task<bool> EngineCore::try_send(RunRow run, record::RunMessage message) {
  const bool is_signal = message.event().kind() == record::RunEvent::SIGNALLED;
  if (is_signal && run.head.signals_kept() > 0) {
    throw QueueFull("run '" + id_of(run.head, run.place) + "' (" + run.head.type() + ") has " +
                    std::to_string(run.head.signals_kept()) +
                    " signals that it did not take, and gets no more before it takes some; this "
                    "one was not sent (EngineOptions::signals_kept_max is the limit)");
  }
  const PartitionKeys there(run.place.queue, run.place.partition);
  const StoreTime now = co_await world_->store.time();
  std::string key = there.message(world_->next_uid(now));
  message.set_uid(run.place.uid);
  Batch batch;
  batch.require_version(there.run(run.place.uid), run.version);
  batch.put(key, message.SerializeAsString());
  const CommitOutcome outcome = co_await world_->store.apply(std::move(batch));
  if (outcome.committed() == nullptr) {
    co_return false;
  }
  if (const auto tenure = tenure_of(run.place)) {
    co_await bring(tenure, std::move(key), std::move(message));
  }
  co_await world_->store.until_durable(outcome.committed()->version);
  co_return true;
}

Task<void> EngineCore::send(std::string id, record::RunMessage message) {
  message.set_format(kRunFormat);
  for (bool sent = false; !sent;) {
    RunRow run = co_await find_open(id);
    sent = co_await try_send(std::move(run), message);
  }
}

Task<boost::json::value> EngineCore::ask(std::string id, record::RunEvent question, bool changes) {
  if (question.request().empty()) {
    const StoreTime now = co_await world_->store.time();
    question.set_request(world_->next_uid(now));
  }
  for (;;) {
    RunRow run = co_await find_open(id);
    std::optional<boost::json::value> answer = co_await ask_this(std::move(run), question, changes);
    if (answer) {
      co_return *std::move(answer);
    }
  }
}

/// And no other of its id. Nothing: look for it again.
Task<std::optional<boost::json::value>> EngineCore::ask_this(RunRow run, record::RunEvent question,
                                                             bool changes) {
  const auto tenure = tenure_of(run.place);
  if (tenure == nullptr) {
    return ask_elsewhere(std::move(run), std::move(question), changes);
  }
  return ask_here(tenure, std::move(run.place.uid), std::move(question), changes);
}

/// Nothing: the run is not here any more, or has ended.
Task<std::optional<boost::json::value>> EngineCore::ask_here(std::shared_ptr<Tenure> tenure,
                                                             std::string uid,
                                                             record::RunEvent question,
                                                             bool changes) {
  auto answer = std::make_shared<LocalAnswer>();
  Mail mail;
  mail.kind = changes ? Mail::Kind::kEvent : Mail::Kind::kQuery;
  mail.event = std::move(question);
  mail.answer = std::make_shared<AnswerDuty>(answer);
  const Tenure::Whereabouts where = co_await tenure->deliver(uid, std::move(mail));
  if (where == Tenure::Whereabouts::kParked) {
    throw StoreBusy("run '" + uid +
                    "' stands still, and answers nothing: Engine::describe says why");
  }
  std::optional<boost::json::value> given;
  if (where == Tenure::Whereabouts::kGone) {
    co_return given;
  }
  const std::uint64_t heard = answer->given.count();
  if (!answer->is_given) {
    co_await answer->given.rung_since(heard);
  }
  if (answer->error) {
    std::rethrow_exception(answer->error);
  }
  if (!answer->moved) {
    given = std::move(answer->value);
  }
  co_return given;
}

/// Nothing: it has changed meanwhile.
Task<std::optional<boost::json::value>> EngineCore::ask_elsewhere(RunRow run,
                                                                  record::RunEvent question,
                                                                  bool changes) {
  const StoreTime now = co_await world_->store.time();
  const std::string key = reply_key(world_->session.id(), world_->next_uid(now));
  Watch watch = world_->store.watch(key);
  record::RunMessage message = message_of(
      changes ? record::RunMessage::EVENT : record::RunMessage::QUERY, std::move(question));
  message.set_reply_key(key);
  const bool is_sent = co_await try_send(std::move(run), std::move(message));
  std::optional<boost::json::value> answer;
  if (!is_sent) {
    co_return answer;
  }
  std::optional<Entry> row;
  while (!row) {
    co_await watch.changed();
    row = co_await read_reply(world_->store, key);
  }
  world_->tasks.run(erase_reply(world_, key));
  const auto reply = read_row<record::RunReply>(*row, "the answer of a run");
  if (reply.has_failure()) {
    std::rethrow_exception(answer_exception_of(reply.failure()));
  }
  answer = parse_payload(reply.payload());
  co_return answer;
}

// --- Results -------------------------------------------------------------------------------------

namespace {

/// Of a run that has ended. Nothing: another one goes on in its place.
template <std::invocable PlaceOf>
std::optional<boost::json::value> value_of(const record::RunHead& head, const PlaceOf& place_of) {
  std::optional<boost::json::value> value;
  if (head.state() == record::RunHead::COMPLETED) {
    value = parse_payload(head.result());
  } else if (head.state() != record::RunHead::CONTINUED) {
    throw RunFailed(ending_text(info_of(head, place_of())));
  }
  return value;
}

}  // namespace

/// Nothing: something has changed, so that it is worth to look again.
Task<std::optional<boost::json::value>> EngineCore::stored_result(const std::string& id) {
  std::optional<Watch> watch;
  std::optional<RunRow> run = co_await find_run(world_->store, id, Read::kApplied);
  if (run && !has_ended(run->head)) {
    watch.emplace(world_->store.watch(
        PartitionKeys(run->place.queue, run->place.partition).run(run->place.uid)));
    run = co_await find_run(world_->store, id, Read::kApplied);  // Seen after the watch is there.
  }
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  std::optional<boost::json::value> value;
  if (has_ended(run->head)) {
    co_await world_->store.until_durable(run->version);
    value = value_of(run->head, [&] { return run->place; });
  } else if (watch) {
    co_await watch->changed();
  }
  co_return value;
}

Task<boost::json::value> EngineCore::result(std::string id) {
  for (;;) {
    std::shared_ptr<LiveRun> here;
    if (const auto place = place_in_id(id)) {
      if (const auto tenure = tenure_of(*place)) {
        here = tenure->find_live(place->uid);
      }
    }
    std::optional<boost::json::value> value;
    if (here != nullptr) {
      const std::uint64_t heard = here->ended().count();
      if (!here->end_version()) {
        co_await here->ended().rung_since(heard);
      }
      if (const std::optional<Version> version = here->end_version()) {
        // Before the wait, so that the run need not be kept in memory until then.
        std::exception_ptr failure;
        try {
          value = value_of(here->head(), [&] { return here->place(); });
        } catch (const RunFailed&) {
          failure = std::current_exception();
        }
        here.reset();
        co_await world_->store.until_durable(*version);
        if (failure) {
          std::rethrow_exception(failure);
        }
      }
    }
    if (!value) {
      value = co_await stored_result(id);
    }
    if (value) {
      co_return *std::move(value);
    }
  }
}

Task<RunInfo> EngineCore::resume(std::string id) {
  std::optional<RunRow> run = co_await find_run(world_->store, id, Read::kApplied);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  if (const auto tenure = tenure_of(run->place)) {
    static_cast<void>(co_await tenure->find(run->place.uid));
  }
  RunInfo info = co_await describe_run(world_->store, *std::move(run));
  co_return info;
}

// --- Resets --------------------------------------------------------------------------------------

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
