// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>
#include <holdfast/workflow.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

namespace detail {

class EngineCore;

}  // namespace detail

enum class RunState : std::uint8_t {
  kRunning,
  kCompleted,
  kFailed,
  kCancelled,
};

/// A run as all can see it.
struct RunInfo {
  std::string id;
  std::string type;
  RunState state = RunState::kRunning;
  StoreTime started_at{};
  std::optional<StoreTime> ended_at;
  boost::json::value input;
  boost::json::value result;   ///< Of one that is completed.
  std::string failure;         ///< Of one that failed.
};

/// There is no run of that id.
class NoSuchRun final : public detail::ErrorOf<ErrorCode::kNoSuchRun> {
  using ErrorOf::ErrorOf;
};

/// Trivially destructible on purpose, as `WaitOptions`.
struct EngineOptions {
  /// Where workflows run; it outlives the engine.
  Executor* executor = nullptr;
  /// Where steps run that are ordinary functions, and may block. Null: on `executor`.
  Executor* steps = nullptr;
};

/// Drives the runs of a store.
///
/// ```
/// Engine engine(*session, {.executor = &pool});
/// engine.add(fulfilment);
/// co_await engine.begin();
/// const std::string id = co_await engine.start(fulfilment, order);
/// const Receipt receipt = co_await engine.result(fulfilment, id);
/// ```
class Engine {
 public:
  Engine(Session& session, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Runs stand where they stand.
  ~Engine();

  /// Before `begin`.
  template <Payload In, Payload Out>
  void add(const Workflow<In, Out>& workflow) {
    add_code(workflow.name(), workflow.code());
  }
  /// Takes over what no living process drives, and goes on with its runs.
  [[nodiscard]] Task<void> begin();

  /// Starts a run, durably; its id.
  template <Payload In, Payload Out>
    requires(!std::is_void_v<In>)
  [[nodiscard]] Task<std::string> start(const Workflow<In, Out>& workflow, const In& input) {
    return start_run(workflow.name(), detail::to_payload(input));
  }
  template <Payload Out>
  [[nodiscard]] Task<std::string> start(const Workflow<void, Out>& workflow) {
    return start_run(workflow.name(), nullptr);
  }

  /// Waits for the end of a run. Throws `RunFailed`, `NoSuchRun`.
  template <Payload In, Payload Out>
  [[nodiscard]] Task<Out> result(const Workflow<In, Out>& /*workflow*/, std::string_view id) {
    return typed_result<Out>(run_result(std::string(id)));
  }

  /// Durable when it returns. A run that has ended takes none: `NoSuchRun`.
  template <typename T>
  [[nodiscard]] Task<void> signal(std::string_view id, std::string_view name, const T& payload) {
    return send_signal(std::string(id), std::string(name), detail::to_payload(payload));
  }
  [[nodiscard]] Task<void> cancel(std::string_view id);
  [[nodiscard]] Task<std::optional<RunInfo>> describe(std::string_view id);

 private:
  template <typename Out>
  static Task<Out> typed_result(Task<boost::json::value> task) {
    boost::json::value value = co_await task;
    co_return detail::from_payload<Out>(std::move(value), "result");
  }
  void add_code(const std::string& name, std::shared_ptr<const detail::WorkflowCode> code);
  [[nodiscard]] Task<std::string> start_run(std::string type, boost::json::value input);
  [[nodiscard]] Task<boost::json::value> run_result(std::string id);
  [[nodiscard]] Task<void> send_signal(std::string id, std::string name,
                                       boost::json::value payload);

  std::shared_ptr<detail::EngineCore> core_;
};

}  // namespace holdfast
