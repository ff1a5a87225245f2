// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/admission.hpp>
#include <holdfast/collected.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/replay.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>
#include <holdfast/wall_clock.hpp>
#include <holdfast/workflow.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

class Schedules;

namespace detail {

class EngineCore;
class EngineProbe;

/// A run that a collector starts when it has all.
struct CollectedRun {
  std::string collector;  ///< Its id.
  std::string id;         ///< Of the run that comes.
};

}  // namespace detail

enum class RunState : std::uint8_t {
  kRunning,
  kCompleted,
  kFailed,
  kCancelled,
  kTerminated,
  kTimedOut,
  kContinued,  ///< It goes on as another run, which has its id.
};

/// A step that has begun and not ended.
struct OpenStep {
  std::string name;
  std::uint32_t attempts_failed = 0;
  std::string failure;                 ///< Of the last attempt.
  std::optional<StoreTime> next_at{};  ///< When it is tried again.
  bool waits = false;                  ///< For a permit. Otherwise it is under way.
};

/// Where a run waits for its turn to begin, or to go on: at a gate of its workflow.
struct QueuedRun {
  std::string gate;
  StoreTime since{};
  std::optional<StoreTime> until{};  ///< Then it has waited too long.
  std::string why;                   ///< `describe` says it, `list` does not.
};

/// A run as all can see it.
struct RunInfo {
  std::string id;
  std::string uid;  ///< Its own for ever; ids are free again when a run has ended.
  std::string type;
  std::string queue;
  std::string parent_id;  ///< Empty: it has none.
  std::string root_uid;   ///< Under which its cells are: `State::execution`.
  RunState state = RunState::kRunning;
  StoreTime started_at{};  ///< Of one that was reset: then.
  std::optional<StoreTime> ended_at{};
  boost::json::value input;
  boost::json::value result;  ///< Of one that is completed.
  std::string failure;        ///< Of one that ended otherwise.
  std::string failure_type;
  std::map<std::string, std::string> attributes;
  /// Why it stands still though it could go on: no process knows its type, or its code does not fit
  /// its journal. Empty: it does not.
  std::string parked;
  /// See `Workflow::concurrency`. Nothing: it does not wait for that.
  std::optional<QueuedRun> queued{};
  /// `describe` says them, `list` does not.
  std::vector<OpenStep> open_steps;
};

/// There is no run of that id, or none that goes on.
class NoSuchRun final : public detail::ErrorOf<ErrorCode::kNoSuchRun> {
  using ErrorOf::ErrorOf;
};

/// What to do if a run of the id goes on.
enum class OnConflict : std::uint8_t {
  kFail,  ///< `RunExists`.
  kUseExisting,
  kTerminateExisting,
};

/// For people and searches.
struct RunAttribute {
  std::string_view name;
  std::string_view value;
};

/// Trivially destructible on purpose, as `WaitOptions`. Views are copied at the call.
struct StartOptions {
  /// Of one run at a time, up to 255 bytes. Empty: one is made.
  std::string_view id{};
  OnConflict on_conflict = OnConflict::kFail;
  /// Whoever starts a run twice with this key starts it once, also if it has ended meanwhile. The
  /// key is forgotten with the run, or with the last one that this goes on as (`purge`).
  std::string_view idempotency_key{};
  /// Which processes drive it: those whose engines have this queue. Empty: the default one.
  std::string_view queue{};
  Duration delay{};
  /// How long it may take from its start on, and with all that it continues as. Zero: for ever.
  Duration timeout{};
  Duration chain_timeout{};
  /// Among those that wait for their turn, if its workflow has a limit: see
  /// `kGateOvertakesPerStep`.
  int priority = 0;
  std::span<const RunAttribute> attributes{};
};

/// Which runs to list; what is empty holds for all.
struct RunFilter {
  std::string_view type{};
  std::string_view queue{};
  std::optional<RunState> state{};
  std::string_view parent_id{};
  std::optional<RunAttribute> attribute{};
  std::string_view after{};  ///< As `RunPage::next`.
  std::size_t limit = 100;   ///< At least 1.
};

struct RunPage {
  std::vector<RunInfo> runs;
  std::string next;  ///< Where the next page begins; empty: there is none.
};

/// Trivially destructible on purpose, as `WaitOptions`. `queue` is copied at the call.
struct EngineOptions {
  /// Where workflows run; it outlives the engine.
  Executor* executor = nullptr;
  /// Where steps run that are ordinary functions, and may block. Null: on `executor`.
  Executor* steps = nullptr;
  /// Whose runs it drives.
  std::string_view queue = "default";
  /// How long a run that waits stays in memory.
  Duration idle_time = std::chrono::seconds(10);
  /// An activation that takes longer is named in a warning: workflow code must not block.
  Duration watchdog_time = std::chrono::seconds(2);
  /// A run that has this many signals that it did not take gets no more: `Engine::signal` throws
  /// `QueueFull`, in every process. Those that are on their way then are kept all the same. At
  /// least 1.
  std::size_t signals_kept_max = 10'000;
  /// Where warnings go; null: standard error.
  void (*warn)(const std::string& text) = nullptr;
  /// For a simulation: the same seed makes the same ids. Zero: random.
  std::uint64_t seed = 0;
  /// What `Schedules` go by; it outlives the engine. Null: the clock of the machine.
  const WallClock* wall_clock = nullptr;
};

class Engine;

/// A run, from anywhere: of any process on the same store.
template <Payload Out>
class RunHandle {
 public:
  RunHandle(Engine& engine, std::string id) : engine_(&engine), id_(std::move(id)) {}
  RunHandle(Engine& engine, detail::CollectedRun run)
      : engine_(&engine), id_(std::move(run.id)), collector_(std::move(run.collector)) {}

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  /// There is no run: the limit of its workflow was full (`WhenFull::kSkip`). The id is empty.
  [[nodiscard]] bool was_skipped() const noexcept { return id_.empty(); }
  /// Waits for its end, and that of all that it continues as. Throws `RunFailed`, `NoSuchRun`.
  [[nodiscard]] Task<Out> result() const;

 private:
  Engine* engine_;
  std::string id_;
  std::string collector_;  // Empty: it was started at once.
};

/// Drives the runs of a store, and reaches those that others drive.
///
/// ```
/// Engine engine(*session, {.executor = &pool});
/// engine.add(fulfilment);
/// co_await engine.begin();
/// auto run = co_await engine.start(fulfilment, order);
/// const Receipt receipt = co_await run.result();
/// ...
/// co_await engine.stop();
/// ```
///
/// Without `begin` it drives nothing, and all else works. Thread-safe from `begin` on.
class Engine {
 public:
  Engine(Session& session, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Runs stand where they stand, and go on elsewhere when the session has expired: `stop` hands
  /// them over at once. Without it, what is under way ends on the executors, which go before the
  /// session and the store.
  ~Engine();

  /// Before `begin`.
  template <Payload In, Payload Out>
  void add(const Workflow<In, Out>& workflow) {
    add_code(workflow.name(), workflow.code(), workflow.admission());
  }
  template <Payload In, Payload All, Payload Out>
  void add(const Collected<In, All, Out>& collected) {
    add(collected.workflow());
  }
  /// Takes its share of the runs of its queue, those of the dead included, and goes on with them.
  [[nodiscard]] Task<void> begin();
  /// Ends what is in hand, steps included, for at most `grace`, then hands the runs over: nobody
  /// has to wait for this session to expire. Steps that take longer are asked to stop, and waited
  /// for, as a thread cannot be ended from outside; others begin them anew.
  [[nodiscard]] Task<void> stop(Duration grace = std::chrono::seconds(10));

  /// Starts a run, durably; if the limit of its workflow is full, as that says. Throws `RunExists`,
  /// `ConcurrencyLimitExceeded`, `InvalidArgument`.
  template <Payload In, Payload Out>
    requires(!std::is_void_v<In>)
  [[nodiscard]] Task<RunHandle<Out>> start(const Workflow<In, Out>& workflow,
                                           const std::type_identity_t<In>& input,
                                           const StartOptions& options = {}) {
    return handle_of<Out>(
        start_of(workflow.name(), workflow.admission(), detail::to_payload(input), options));
  }
  template <Payload Out>
  [[nodiscard]] Task<RunHandle<Out>> start(const Workflow<void, Out>& workflow,
                                           const StartOptions& options = {}) {
    return handle_of<Out>(start_of(workflow.name(), workflow.admission(), nullptr, options));
  }
  /// Has a run started later, with what others of the key were given until then: see `debounced`
  /// and `batched`. Throws `InvalidArgument`.
  template <Payload In, Payload All, Payload Out>
  [[nodiscard]] Task<RunHandle<Out>> start(const Collected<In, All, Out>& collected,
                                           const std::type_identity_t<In>& input,
                                           const CollectOptions& options = {}) {
    return handle_of_collected<Out>(
        collect(collected.terms(), collected.key_of(input), detail::to_payload(input),
                {std::string(options.queue), std::string(options.idempotency_key)}));
  }
  /// Of a type that this process need not know; its id. If it does not know it, whoever drives the
  /// run asks whether it may begin, and one that is rejected has failed.
  [[nodiscard]] Task<std::string> start_run(std::string_view type, boost::json::value input,
                                            const StartOptions& options);

  /// A run that was started elsewhere or earlier.
  template <Payload In, Payload Out>
  [[nodiscard]] RunHandle<Out> handle(const Workflow<In, Out>& /*workflow*/, std::string_view id) {
    return {*this, std::string(id)};
  }

  /// Durable when it returns: the run gets it, also if this process ends. Two with one
  /// `request_id` count once; empty: each counts. A run that has ended takes none: `NoSuchRun`. One
  /// that has too many that it did not take (`EngineOptions::signals_kept_max`) gets no more:
  /// `QueueFull`.
  template <typename T>
  [[nodiscard]] Task<void> signal(std::string_view id, std::string_view name, const T& payload,
                                  std::string_view request_id = {}) {
    return send_signal(std::string(id), std::string(name), detail::to_payload(payload),
                       std::string(request_id));
  }
  /// Signals the run of `options.id`, which is started first if none goes on. If one was started
  /// with `options.idempotency_key` already, it is that one which is signalled, and none is started
  /// any more: when it has ended, `NoSuchRun`, unless it was given this `request_id` before. The
  /// key is that of the start; signals count once by `request_id`, as with `signal`.
  template <Payload In, Payload Out, typename T>
  [[nodiscard]] Task<RunHandle<Out>> start_or_signal(const Workflow<In, Out>& workflow,
                                                     const std::type_identity_t<In>& input,
                                                     const StartOptions& options,
                                                     std::string_view name, const T& payload,
                                                     std::string_view request_id = {}) {
    return handle_of<Out>(start_or_send(workflow.name(), workflow.admission(),
                                        detail::to_payload(input), options, std::string(name),
                                        detail::to_payload(payload), std::string(request_id)));
  }

  /// What the code of the run answers; it changes nothing. Throws `NoSuchHandler`, `NoSuchRun`.
  template <Payload Out, typename In = std::nullptr_t>
  [[nodiscard]] Task<Out> query(std::string_view id, std::string_view name,
                                const In& payload = {}) {
    return typed_answer<Out>(
        ask(std::string(id), std::string(name), detail::to_payload(payload), false, {}),
        std::string(name));
  }
  /// Changes the run, once for each `request_id`, and answers when that is durable. Throws
  /// `UpdateRefused`, and then nothing was changed; `NoSuchHandler`, `NoSuchRun`.
  template <Payload Out, typename In>
  [[nodiscard]] Task<Out> update(std::string_view id, std::string_view name, const In& payload,
                                 std::string_view request_id = {}) {
    return typed_answer<Out>(ask(std::string(id), std::string(name), detail::to_payload(payload),
                                 true, std::string(request_id)),
                             std::string(name));
  }

  /// Asks the run to stop: what it waits for throws `Cancelled`, and it may clean up.
  [[nodiscard]] Task<void> cancel(std::string_view id);
  /// Ends it where it stands. Its code does not learn of it.
  [[nodiscard]] Task<void> terminate(std::string_view id, std::string_view reason);
  /// Steps that wait for their next attempt are tried at once.
  [[nodiscard]] Task<void> retry_now(std::string_view id);
  /// Ends the run, and lets a new one with its id go on from where this one stood after `rows` rows
  /// of its journal. Its time-out counts from then on. Throws `InvalidArgument` if a child was
  /// under way there.
  [[nodiscard]] Task<void> reset(std::string_view id, std::uint64_t rows, std::string_view reason);

  /// The run that has the id, or had it last. Nothing: there is none.
  [[nodiscard]] Task<std::optional<RunInfo>> describe(std::string_view id);
  [[nodiscard]] Task<RunPage> list(const RunFilter& filter = {});
  /// The run that has the id, or had it last, with its journal as far as it has come: keep it in a
  /// file, and let the tests of whoever changes its code `check_replay` it. Throws `NoSuchRun`.
  [[nodiscard]] Task<RecordedRun> record(std::string_view id);
  /// Forgets runs that have ended longer ago than that; how many.
  [[nodiscard]] Task<std::size_t> purge(Duration older_than);

  /// For programs without threads of ours, with an executor that is driven by hand: each does once
  /// what happens by itself after `begin`.
  [[nodiscard]] Task<void> recover_all();
  /// Takes what is due by now, and reads what was sent; when the next timer of a run is due.
  /// Nothing: no run waits for a time. There is no other time than that of the store: to have one
  /// of your own, give the store a clock that you move (`VirtualClock`).
  [[nodiscard]] Task<std::optional<StoreTime>> sweep();
  /// Goes on with a run, if this process drives it; how it stands.
  [[nodiscard]] Task<RunInfo> resume(std::string_view id);

  /// Runs in memory, and partitions of its queue that it drives.
  [[nodiscard]] std::size_t live_runs() const;
  [[nodiscard]] std::size_t partitions() const;

 private:
  template <Payload Out>
  friend class RunHandle;
  friend class Schedules;
  friend class detail::EngineProbe;

  template <typename Out>
  Task<RunHandle<Out>> handle_of(Task<std::string> started) {
    std::string id = co_await started;
    co_return RunHandle<Out>(*this, std::move(id));
  }
  template <typename Out>
  Task<RunHandle<Out>> handle_of_collected(Task<detail::CollectedRun> collected) {
    detail::CollectedRun run = co_await collected;
    co_return RunHandle<Out>(*this, std::move(run));
  }
  template <typename Out>
  static Task<Out> typed_answer(Task<boost::json::value> task, std::string what) {
    boost::json::value value = co_await task;
    co_return detail::from_payload<Out>(std::move(value), what);
  }
  void add_code(const std::string& name, std::shared_ptr<const detail::WorkflowCode> code,
                std::shared_ptr<const detail::Admission> admission);
  [[nodiscard]] Task<std::string> start_of(std::string_view type,
                                           std::shared_ptr<const detail::Admission> admission,
                                           boost::json::value input, const StartOptions& options);
  [[nodiscard]] Task<boost::json::value> run_result(std::string id, std::string collector);
  [[nodiscard]] Task<detail::CollectedRun> collect(detail::CollectorTerms terms, std::string key,
                                                   boost::json::value input,
                                                   detail::CollectTerms how);
  [[nodiscard]] Task<void> send_signal(std::string id, std::string name, boost::json::value payload,
                                       std::string request_id);
  [[nodiscard]] Task<std::string> start_or_send(std::string_view type,
                                                std::shared_ptr<const detail::Admission> admission,
                                                boost::json::value input,
                                                const StartOptions& options, std::string name,
                                                boost::json::value payload, std::string request_id);
  [[nodiscard]] Task<boost::json::value> ask(std::string id, std::string name,
                                             boost::json::value payload, bool changes,
                                             std::string request_id);

  std::shared_ptr<detail::EngineCore> core_;
};

template <Payload Out>
Task<Out> RunHandle<Out>::result() const {
  return Engine::typed_answer<Out>(engine_->run_result(id_, collector_), "result");
}

}  // namespace holdfast
