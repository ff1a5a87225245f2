// SPDX-License-Identifier: Apache-2.0
#include <holdfast/engine.hpp>

#include <utility>

#include "engine_core.hpp"
#include "run_payload.hpp"

namespace holdfast {

namespace {

record::RunEvent event_of(record::RunEvent::Kind kind, std::string name,
                          const boost::json::value& payload, std::string request_id) {
  record::RunEvent event;
  event.set_kind(kind);
  event.set_payload(detail::payload_text(payload, name));
  event.set_name(std::move(name));
  event.set_request(std::move(request_id));
  return event;
}

record::RunMessage bare_message(record::RunMessage::Kind kind) {
  record::RunMessage message;
  message.set_kind(kind);
  return message;
}

Task<std::optional<RunInfo>> describe_if_found(Store& store, std::string id) {
  std::optional<detail::RunRow> run = co_await detail::find_run(store, std::move(id));
  std::optional<RunInfo> info;
  if (run) {
    info = co_await detail::describe_run(store, *std::move(run));
  }
  co_return info;
}

Task<boost::json::value> result_of(std::shared_ptr<detail::EngineCore> core, std::string id,
                                   std::string collector) {
  if (id.empty()) {
    throw NoSuchRun(
        "there is no run: its start was skipped, as the limit of its workflow was full");
  }
  if (!collector.empty()) {
    detail::CollectedRun run{std::move(collector), id};
    co_await core->until_collected(std::move(run));
  }
  boost::json::value result = co_await core->result(std::move(id));
  co_return result;
}

Task<std::size_t> purge_older(Store& store, Duration older_than) {
  const StoreTime now = co_await store.time();
  const std::size_t count = co_await detail::purge_runs(store, now - older_than);
  co_return count;
}

}  // namespace

Engine::Engine(Session& session, const EngineOptions& options)
    : core_(std::make_shared<detail::EngineCore>(session, options)) {}
Engine::~Engine() { core_->close(); }

void Engine::add_code(const std::string& name, std::shared_ptr<const detail::WorkflowCode> code,
                      std::shared_ptr<const detail::Admission> admission) {
  core_->add(name, std::move(code), std::move(admission));
}
Task<void> Engine::begin() { return core_->begin(); }
Task<void> Engine::stop(Duration grace) { return core_->stop(grace); }

Task<std::string> Engine::start_run(std::string_view type, boost::json::value input,
                                    const StartOptions& options) {
  return start_of(type, nullptr, std::move(input), options);
}

Task<std::string> Engine::start_of(std::string_view type,
                                   std::shared_ptr<const detail::Admission> admission,
                                   boost::json::value input, const StartOptions& options) {
  detail::StartTerms terms(options, core_->queue());
  terms.admission = std::move(admission);
  return core_->start(std::string(type), std::move(input), std::move(terms), std::nullopt);
}

Task<std::string> Engine::start_or_send(std::string_view type,
                                        std::shared_ptr<const detail::Admission> admission,
                                        boost::json::value input, const StartOptions& options,
                                        std::string name, boost::json::value payload,
                                        std::string request_id) {
  if (options.id.empty()) {
    throw InvalidArgument("start_or_signal needs StartOptions::id: which run to signal?");
  }
  detail::StartTerms terms(options, core_->queue());
  terms.admission = std::move(admission);
  return core_->start(
      std::string(type), std::move(input), std::move(terms),
      event_of(record::RunEvent::SIGNALLED, std::move(name), payload, std::move(request_id)));
}

Task<boost::json::value> Engine::run_result(std::string id, std::string collector) {
  return result_of(core_, std::move(id), std::move(collector));
}

Task<detail::CollectedRun> Engine::collect(detail::CollectorTerms terms, std::string key,
                                           boost::json::value input, detail::CollectTerms how) {
  return core_->collect(std::move(terms), std::move(key), std::move(input), std::move(how));
}

Task<void> Engine::send_signal(std::string id, std::string name, boost::json::value payload,
                               std::string request_id) {
  record::RunMessage message = bare_message(record::RunMessage::EVENT);
  *message.mutable_event() =
      event_of(record::RunEvent::SIGNALLED, std::move(name), payload, std::move(request_id));
  return core_->send(std::move(id), std::move(message));
}

Task<boost::json::value> Engine::ask(std::string id, std::string name, boost::json::value payload,
                                     bool changes, std::string request_id) {
  return core_->ask(
      std::move(id),
      event_of(record::RunEvent::UPDATED, std::move(name), payload, std::move(request_id)),
      changes);
}

Task<void> Engine::cancel(std::string_view id) {
  record::RunMessage message = bare_message(record::RunMessage::EVENT);
  message.mutable_event()->set_kind(record::RunEvent::CANCEL_REQUESTED);
  return core_->send(std::string(id), std::move(message));
}

Task<void> Engine::terminate(std::string_view id, std::string_view reason) {
  record::RunMessage message = bare_message(record::RunMessage::TERMINATE);
  message.mutable_event()->set_payload(std::string(reason));
  return core_->send(std::string(id), std::move(message));
}

Task<void> Engine::retry_now(std::string_view id) {
  return core_->send(std::string(id), bare_message(record::RunMessage::RETRY_NOW));
}

Task<void> Engine::reset(std::string_view id, std::uint64_t rows, std::string_view reason) {
  return core_->reset(std::string(id), rows, std::string(reason));
}

Task<std::optional<RunInfo>> Engine::describe(std::string_view id) {
  return describe_if_found(core_->store(), std::string(id));
}
Task<RunPage> Engine::list(const RunFilter& filter) {
  return detail::list_runs(core_->store(), detail::RunSearch(filter));
}
Task<RecordedRun> Engine::record(std::string_view id) {
  return detail::record_run(core_->store(), std::string(id));
}
Task<std::size_t> Engine::purge(Duration older_than) {
  return purge_older(core_->store(), older_than);
}

Task<void> Engine::recover_all() { return core_->recover_all(); }
Task<std::optional<StoreTime>> Engine::sweep() { return core_->sweep(); }
Task<RunInfo> Engine::resume(std::string_view id) { return core_->resume(std::string(id)); }

std::size_t Engine::live_runs() const { return core_->live_runs(); }
std::size_t Engine::partitions() const { return core_->partitions(); }

}  // namespace holdfast
