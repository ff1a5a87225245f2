// SPDX-License-Identifier: Apache-2.0
#include "errand.hpp"

#include "play.hpp"

namespace holdfast::testing {

namespace {

std::string request_of(const Wanted& wanted) { return "request " + std::to_string(wanted.value); }

Task<void> start(Engine& engine, const Order& order) {
  StartOptions options;
  options.id = order.id;
  options.idempotency_key = order.id;
  options.queue = order.queue;
  options.delay = order.delay;
  options.timeout = order.timeout;
  const auto started = co_await engine.start(play_workflow(order.limit), order.program, options);
  static_cast<void>(started);
}

Task<void> signal(Engine& engine, const Order& order, Wanted wanted) {
  const std::string request = request_of(wanted);
  const std::string name = "signal" + std::to_string(wanted.name);
  co_await engine.signal(order.id, name, wanted.value, request);
}

Task<void> update(Engine& engine, const Order& order, Wanted wanted, Errand::Answer& answer) {
  const std::string request = request_of(wanted);
  const auto reply = co_await engine.update<std::int64_t>(order.id, "add", wanted.value, request);
  if (reply != wanted.value + 1) {
    answer.fault = "an update of run " + order.id + " got the answer " + std::to_string(reply) +
                   " instead of " + std::to_string(wanted.value + 1);
  }
}

Task<void> update_badly(Engine& engine, const Order& order, Errand::Answer& answer) {
  const std::int64_t bad = -1;
  const auto reply = co_await engine.update<std::int64_t>(order.id, "add", bad);
  answer.fault = "an update that is to be refused was answered: " + std::to_string(reply);
}

Task<void> await_result(Engine& engine, const Order& order, Errand::Answer& answer) {
  const auto handle = engine.handle(play_workflow(), order.id);
  const std::int64_t result = co_await handle.result();
  if (result != order.expected.result) {
    answer.fault = "a client got " + std::to_string(result) + " from run " + order.id +
                   " instead of " + std::to_string(order.expected.result);
  }
}

/// Each attempt may be another one.
Task<void> reset(Engine& engine, const Order& order, Wanted wanted) {
  ++outside->resets[order.id];
  const auto rows = static_cast<std::uint64_t>(wanted.value);
  try {
    co_await engine.reset(order.id, rows, "by a client");
  } catch (const InvalidArgument&) {
    // It has not come that far, or has a child there.
    --outside->resets[order.id];
  }
}

Task<void> try_once(Engine& engine, Errand::Kind kind, Wanted wanted, const Order& order,
                    Errand::Answer& answer) {
  switch (kind) {
    case Errand::Kind::kStart:
      return start(engine, order);
    case Errand::Kind::kSignal:
      return signal(engine, order, wanted);
    case Errand::Kind::kUpdate:
      return update(engine, order, wanted, answer);
    case Errand::Kind::kCancel:
      return engine.cancel(order.id);
    case Errand::Kind::kTerminate:
      return engine.terminate(order.id, "by a client");
    case Errand::Kind::kReset:
      return reset(engine, order, wanted);
    case Errand::Kind::kResult:
      return await_result(engine, order, answer);
    case Errand::Kind::kBadUpdate:
      return update_badly(engine, order, answer);
    case Errand::Kind::kRetryNow:
      return engine.retry_now(order.id);
    default:
      break;
  }
  return [](Task<int> query) -> Task<void> {
    static_cast<void>(co_await query);
  }(engine.query<int>(order.id, "updates"));
}

}  // namespace

Errand::Verdict verdict_of(const Error& error, const std::string& about, Errand::Answer& answer) {
  if (error.code() == ErrorCode::kOutcomeUnknown) {
    return Errand::Verdict::kUnknown;
  }
  const bool may_come = error.remedy() == Remedy::kTryAgain || error.remedy() == Remedy::kGiveUp ||
                        error.remedy() == Remedy::kStartOver;
  if (!may_come) {
    answer.fault = about + ", a request: " + error.what();
  }
  return Errand::Verdict::kAgain;
}

Task<void> carry_out(Engine& engine, Errand::Kind kind, Wanted wanted, const Order& order,
                     std::shared_ptr<Errand::Answer> answer) {
  Errand::Verdict verdict = Errand::Verdict::kAcknowledged;
  try {
    co_await try_once(engine, kind, wanted, order, *answer);
  } catch (const NoSuchRun&) {
    verdict = Errand::Verdict::kGone;
  } catch (const RunFailed& error) {
    verdict = Errand::Verdict::kGone;
    if (order.fate == Order::Fate::kResult) {
      answer->fault = "run " + order.id + " failed: " + error.what();
    }
  } catch (const NoSuchHandler&) {
    verdict = Errand::Verdict::kAgain;  // It starts later.
  } catch (const UpdateRefused&) {
    if (kind != Errand::Kind::kBadUpdate) {
      answer->fault = "a good update of run " + order.id + " was refused";
    }
  } catch (const Error& error) {
    verdict = verdict_of(error, "run " + order.id, *answer);
  }
  answer->verdict = verdict;
}

}  // namespace holdfast::testing
