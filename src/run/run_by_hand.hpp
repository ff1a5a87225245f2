// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/outcome.hpp>
#include <holdfast/workflow.hpp>

#include "run_machine.hpp"
#include "run_payload.hpp"

/// Runs without a store, which tests drive by events.
namespace holdfast::detail {

using namespace std::chrono_literals;
using Event = record::RunEvent;
using Body = std::function<Task<boost::json::value>(Context&, boost::json::value)>;

class CodeOf final : public WorkflowCode {
 public:
  explicit CodeOf(Body body) : body_(std::move(body)) {}
  [[nodiscard]] Task<boost::json::value> run(Context& context,
                                             boost::json::value input) const override {
    return body_(context, std::move(input));
  }

 private:
  Body body_;
};

inline Event event_of(Event::Kind kind, std::uint64_t operation = 0) {
  Event event;
  event.set_kind(kind);
  event.set_operation(operation);
  return event;
}
inline Event with(Event event, const boost::json::value& payload) {
  event.set_payload(payload_text(payload));
  return event;
}
inline Event with_failure(Event event, const char* message, int code = 0) {
  event.mutable_failure()->set_message(message);
  event.mutable_failure()->set_code(code);
  return event;
}
inline Event started() { return event_of(Event::STARTED); }
inline Event ended(std::uint64_t operation, const boost::json::value& value) {
  return with(event_of(Event::STEP_ENDED, operation), value);
}
inline Event failed(std::uint64_t operation, const char* message) {
  return with_failure(event_of(Event::STEP_ENDED, operation), message);
}
inline Event fired(std::uint64_t operation) { return event_of(Event::TIMER_FIRED, operation); }
inline Event child_ended(std::uint64_t operation, const boost::json::value& value) {
  return with(event_of(Event::CHILD_ENDED, operation), value);
}
inline Event settled(std::uint64_t operation, const boost::json::value& value) {
  return with(event_of(Event::STATE_SETTLED, operation), value);
}
inline Event signalled(const char* name, const boost::json::value& value,
                       const char* request = "") {
  Event event = with(event_of(Event::SIGNALLED), value);
  event.set_name(name);
  event.set_request(request);
  return event;
}
inline Event updated(const char* request, const char* name, const boost::json::value& value) {
  Event event = with(event_of(Event::UPDATED), value);
  event.set_name(name);
  event.set_request(request);
  return event;
}
inline Event cancel() { return event_of(Event::CANCEL_REQUESTED); }

inline StoreTime at(Duration time) { return StoreTime(1h + time); }

/// All that an activation came to, as a text that two can be compared by.
inline std::string text_of(const Activated& activated) {
  std::ostringstream text;
  for (const BegunStep& step : activated.steps) {
    text << "step " << step.operation << " " << step.name << " " << step.terms.idempotency_key
         << "\n";
  }
  for (const BegunTimer& timer : activated.timers) {
    text << "timer " << timer.operation << " " << timer.due.time_since_epoch().count() << "\n";
  }
  for (const BegunChild& child : activated.children) {
    text << "child " << child.operation << " " << child.type << " "
         << boost::json::serialize(child.input) << " " << child.terms.id << "\n";
  }
  for (const BegunStateAccess& access : activated.state) {
    text << "state " << access.operation << " " << access.key << "\n";
  }
  for (const UpdateReply& reply : activated.replies) {
    text << "reply " << reply.request << " "
         << (reply.error ? message_of(reply.error) : boost::json::serialize(reply.value)) << "\n";
  }
  for (const std::uint64_t operation : activated.given_up) {
    text << "given up " << operation << "\n";
  }
  for (const std::uint64_t operation : activated.unwanted) {
    text << "unwanted " << operation << "\n";
  }
  if (activated.end) {
    const RunEnd& end = *activated.end;
    text << "end "
         << (end.error ? message_of(end.error)
                       : boost::json::serialize(end.continue_with.value_or(end.value)))
         << " " << end.signals_left.size() << "\n";
  }
  return text.str();
}

/// A run that keeps its journal. Beside it another machine goes over each row, and must come to the
/// same.
class Machine {
 public:
  explicit Machine(Body body, boost::json::value input = nullptr)
      : Machine(std::move(body), RunMachine::Facts{"run-1", "test", std::move(input)}) {}
  Machine(Body body, const RunMachine::Facts& facts)
      : code_(std::move(body)), machine_(code_, facts), shadow_(code_, facts) {}
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { catch_up(); }

  Activated step(Event event, Duration now = 0s) {
    return step(std::vector{std::move(event)}, now);
  }
  Activated step(std::vector<Event> events, Duration now = 0s) {
    catch_up();
    Activated activated = machine_.activate(at(now), std::move(events));
    journal.push_back(activated.record);
    last_ = text_of(activated);
    return activated;
  }
  /// What is done in the commit of the last activation.
  void hold(std::vector<Event> events) {
    for (const Event& event : events) {
      *journal.back().add_held() = event;
    }
    machine_.hold(std::move(events));
  }
  RunMachine& inner() { return machine_; }

  std::vector<record::Activation> journal;

 private:
  void catch_up() {
    if (replayed_ < journal.size()) {
      try {
        EXPECT_EQ(text_of(shadow_.replay(journal[replayed_])), last_) << "row " << replayed_;
      } catch (const NondeterminismError& error) {
        ADD_FAILURE() << error.what();
      }
      ++replayed_;
    }
  }

  CodeOf code_;
  RunMachine machine_;
  RunMachine shadow_;
  std::size_t replayed_ = 0;
  std::string last_;
};

/// Goes over a journal with some code; what the last row came to.
inline Activated replay(const std::vector<record::Activation>& journal, Body body,
                        boost::json::value input = nullptr) {
  const CodeOf code(std::move(body));
  RunMachine machine(code, {"run-1", "test", std::move(input)});
  Activated last;
  for (const record::Activation& row : journal) {
    last = machine.replay(row);
  }
  return last;
}

/// Where some code strays from a journal.
inline std::string complaint(const std::vector<record::Activation>& journal, const Body& body) {
  try {
    static_cast<void>(replay(journal, body));
  } catch (const NondeterminismError& error) {
    return error.what();
  }
  return "none";
}

/// The message of what a run failed with; throws if it is no `T`.
template <typename T>
std::string failure(const Activated& activated) {
  try {
    if (activated.end && activated.end->error) {
      std::rethrow_exception(activated.end->error);
    }
  } catch (const T& error) {
    return error.what();
  }
  return "it has not failed";
}

}  // namespace holdfast::detail
