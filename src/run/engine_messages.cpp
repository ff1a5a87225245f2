// SPDX-License-Identifier: Apache-2.0
// What is sent to runs, from the process that drives them and from all others, and what they
// answer.
#include <utility>

#include <holdfast/error.hpp>

#include "busy_pause.hpp"
#include "engine_core.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
#include "run_message.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

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

}  // namespace

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
  // However busy the store is: who asked would otherwise ask again, for what has happened.
  const auto read_answer = [&] { return world_->store.get(key); };
  std::optional<Entry> row;
  while (!row) {
    co_await watch.changed();
    row = co_await read_when_not_busy(read_answer);
  }
  world_->tasks.run(erase_reply(world_, key));
  const auto reply = read_row<record::RunReply>(*row, "the answer of a run");
  if (reply.has_failure()) {
    std::rethrow_exception(answer_exception_of(reply.failure()));
  }
  answer = parse_payload(reply.payload());
  co_return answer;
}

}  // namespace holdfast::detail
