// SPDX-License-Identifier: Apache-2.0
// A step that is a transaction of the store's own database.
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include <holdfast/error.hpp>
#include <holdfast/run_error.hpp>

#include "busy_pause.hpp"
#include "live_run.hpp"
#include "run_failure.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

std::exception_ptr stale_fence(const std::string& step, const Fenced& fenced) {
  std::string text = "transaction '" + step + "': fence ";
  text.append(std::to_string(fenced.expected)).append(" of ").append(fenced.key);
  if (fenced.current) {
    text.append(" is stale, the current one is ").append(std::to_string(fenced.current->version));
  } else {
    text.append(" is stale: what it stands for is over");
  }
  return std::make_exception_ptr(StaleFence(text + ". Nothing of the transaction happened"));
}

}  // namespace

Task<bool> LiveRun::transact_first(std::vector<Mail> transactions) {
  if (!transactions.empty() && !machine_.has_held() && !is_gone()) {
    const record::RunEvent asked = std::move(transactions.front().event);
    transactions.erase(transactions.begin());
    const std::shared_ptr<StepRun> step = step_at(asked.operation());
    if (step != nullptr) {
      co_await transact(step, asked.attempts());
    }
  }
  const std::lock_guard lock(mutex_);
  if (!gone_) {
    mail_.insert(mail_.begin(), std::make_move_iterator(transactions.begin()),
                 std::make_move_iterator(transactions.end()));
  }
  co_return !gone_;
}

/// A row of the journal whose only content is how the step has ended, which the next activation
/// learns: what the code does then must not be part of a commit that may be refused.
Task<void> LiveRun::transact(std::shared_ptr<StepRun> step, std::uint32_t attempt) {
  // A row that is lost after this would leave a gap in the journal.
  const bool is_durable = co_await tenure_->until_durable(last_version_);
  if (!is_durable) {
    co_return;
  }
  for (;;) {
    const StoreTime now = co_await tenure_->world().store.time();
    record::Activation row;
    Writing writing;
    // Called in another thread, while this one does nothing with the run.
    const TransactionWork work = [&](Transaction& transaction) {
      record::RunEvent ended;
      ended.set_kind(record::RunEvent::STEP_ENDED);
      ended.set_operation(step->operation());
      ended.set_attempts(attempt);
      ended.set_payload(step->transact(attempt, transaction));
      row.set_format(kRunFormat);
      row.set_now_ns(ns_of(now));
      *row.add_held() = std::move(ended);
      writing = write_transaction(row, now);
      return writing.batch;
    };
    const Tenure::Transacted done = co_await tenure_->try_transact(work);
    if (done.busy) {
      co_await busy_pause();
      continue;
    }
    if (done.error) {
      const bool is_refused =
          failure_of(done.error).code() == static_cast<int>(ErrorCode::kTransactionRefused);
      step->fail_transaction(shared_from_this(), attempt, done.error,
                             done.is_of_work && !is_refused);
    } else if (done.outcome && done.outcome->fenced() != nullptr) {
      step->fail_transaction(shared_from_this(), attempt,
                             stale_fence(step->name(), *done.outcome->fenced()), false);
    } else if (done.outcome && done.outcome->conflict() != nullptr) {
      tenure_->end("a row of run '" + uid_ +
                   "' was changed by somebody else: " + done.outcome->conflict()->key);
    } else if (done.outcome) {
      Activated activated = machine_.replay(row);
      activated.record = std::move(row);
      after_commit(writing, activated, {}, done.outcome->committed()->version, now);
    }
    co_return;
  }
}

LiveRun::Writing LiveRun::write_transaction(record::Activation row, StoreTime now) {
  Activated activated;
  activated.record = std::move(row);
  Writing writing = write(activated, {}, now, {});
  guard_locks(writing.batch, activated.record, {});
  return writing;
}

}  // namespace holdfast::detail
