// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <run.pb.h>

#include <holdfast/executor.hpp>
#include <holdfast/workflow.hpp>

namespace holdfast::detail {

inline constexpr std::uint32_t kRunFormat = 1;

/// What the code of a run began in an activation and others have to do.
struct BegunStep {
  std::uint64_t operation = 0;
  std::string name;
  std::unique_ptr<StepCode> code;
  StepTerms terms;
};
struct BegunTimer {
  std::uint64_t operation = 0;
  StoreTime due{};
};
struct BegunChild {
  std::uint64_t operation = 0;
  std::string type;
  boost::json::value input;
  ChildTerms terms;
};
/// A read or a change of a cell, which is done in the commit of the activation.
struct BegunStateAccess {
  std::uint64_t operation = 0;
  std::string key;
  std::unique_ptr<StateCode> code;
};
/// The answer to an update.
struct UpdateReply {
  std::string request;
  boost::json::value value;
  std::exception_ptr error;
};

/// How a run ended: with a value, with what it threw, or by going on as a new one.
struct RunEnd {
  boost::json::value value;
  std::exception_ptr error;
  std::optional<boost::json::value> continue_with;
  /// Signals that nobody took, for the one that goes on.
  std::vector<record::RunEvent> signals_left;
};

/// What came of an activation. The record is what the journal gets.
struct Activated {
  record::Activation record;
  std::vector<BegunStep> steps;
  std::vector<BegunTimer> timers;
  std::vector<BegunChild> children;
  std::vector<BegunStateAccess> state;
  std::vector<UpdateReply> replies;
  /// Operations that nobody waits for any more: a timer need not fire, a step and a child may stop.
  std::vector<std::uint64_t> given_up;
  std::optional<RunEnd> end;
};

/// The code of one run, as far as it has come: it is activated by what happened, goes on until all
/// of it waits, and says what it wants. Pure: time and all else come with the events, so the same
/// events lead to the same place, and that is how a run is rebuilt from its journal.
///
/// Used by one thread at a time.
class RunMachine {
 public:
  struct Facts {
    std::string id;
    std::string type;
    boost::json::value input;
  };
  /// `code` outlives this.
  RunMachine(const WorkflowCode& code, Facts facts);
  RunMachine(const RunMachine&) = delete;
  RunMachine& operator=(const RunMachine&) = delete;
  /// The code does not go on: what its frames hold is destroyed where it stands.
  ~RunMachine();

  /// The first time with `STARTED`. Not after the end.
  [[nodiscard]] Activated activate(StoreTime now, std::vector<record::RunEvent> events);
  /// Goes over a row of the journal again. Throws `NondeterminismError`, after which this is of no
  /// use. The steps and timers are those that had not ended when the row was written.
  [[nodiscard]] Activated replay(const record::Activation& row);

  // For `Context`.

  [[nodiscard]] const Facts& facts() const noexcept { return facts_; }
  [[nodiscard]] StoreTime now() const noexcept { return now_; }
  [[nodiscard]] bool is_replaying() const noexcept { return expected_ != nullptr; }
  [[nodiscard]] std::uint64_t random() noexcept;
  [[nodiscard]] std::int64_t version(std::string_view change, std::int64_t oldest,
                                     std::int64_t newest);
  [[nodiscard]] std::shared_ptr<RunOperation> begin_step(std::string_view name,
                                                         std::unique_ptr<StepCode> code);
  [[nodiscard]] std::shared_ptr<RunOperation> begin_timer(StoreTime due);
  [[nodiscard]] std::shared_ptr<RunOperation> begin_signal(std::string_view name);

 private:
  class Root;
  /// Runs nothing but what the run itself posts, when it is drained.
  class Activator final : public Executor {
   public:
    void post(Work& work) noexcept override { ready_.push(work); }
    [[nodiscard]] Clock& clock() noexcept override;
    void drain() noexcept;

   private:
    WorkList ready_;
  };
  using Event = record::RunEvent;

  static Root run_root(RunMachine& machine);
  void deliver(const Event& event);
  void start();
  void settle(const Event& event);
  void take_signal(const Event& event);
  [[nodiscard]] std::shared_ptr<RunOperation> begin(record::RunOperation operation);
  void check_against_journal(const record::RunOperation& operation);
  void stray(std::string expected, std::string found);
  [[nodiscard]] const record::RunOperation* expected() const noexcept;

  const WorkflowCode& code_;
  const Facts facts_;
  Context context_{*this};
  Activator activator_;
  TaskContext task_;
  std::unique_ptr<Root> root_;

  StoreTime now_{};
  std::uint64_t activations_ = 0;
  std::uint64_t row_ = 0;  // Of the journal, that is being written or read.
  std::uint64_t next_operation_ = 0;
  std::uint64_t first_of_activation_ = 0;
  std::uint64_t random_state_;
  bool ended_ = false;
  Activated current_;
  const record::Activation* expected_ = nullptr;  // While it is replayed.
  std::optional<std::string> strayed_;

  std::map<std::uint64_t, std::shared_ptr<RunOperation>> pending_;
  struct Signals {
    std::deque<boost::json::value> kept;
    std::deque<std::shared_ptr<RunOperation>> awaited;
  };
  std::map<std::string, Signals, std::less<>> signals_;
};

}  // namespace holdfast::detail
