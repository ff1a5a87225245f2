// SPDX-License-Identifier: Apache-2.0
// A batch that is made in its own transaction, together with what the caller writes by itself.
#include "committer.hpp"

namespace holdfast::detail {

bool Committer::next_is_alone() const noexcept {
  return !queue_.empty() && queue_.first()->work_ != nullptr;
}

/// In a transaction of its own, when all that came before is on the disk: what it finds there is
/// what was decided, and if it is taken back nothing goes with it. Those behind it wait.
void Committer::transact(Lock& lock) {
  Request& request = *queue_.first();
  queue_.remove(request);
  deciding_ = true;
  lock.unlock();
  const Failure failure = call_work(request);
  lock.lock();
  if (!request.error_) {
    fetch(lock, {&request});
  }
  bool is_decided = false;
  if (!request.error_) {
    const Version before = last_;
    look_up_fetched(request.batch_);
    request.outcome_ = decide(request.batch_);
    is_decided = request.outcome_->committed() != nullptr;
    if (is_decided && last_ == before) {
      // Without a row of ours it is a commit all the same.
      ++last_;
      ++gathered_batches_;
      request.outcome_ = Committed{last_};
    }
  }
  rows_.trim(4);
  deciding_ = false;
  if (is_decided) {
    for_gathering_.requests.push_back(&request);
    if (write_gathered(lock, rows_.take_all())) {
      commit_written(lock);
    }
    return;
  }
  lock.unlock();
  backend_.roll_back();
  request.complete();
  lock.lock();
  if (failure.of_rest) {
    fail(lock, failure);
  }
}

/// Without the lock. What the disk has to do with is a failure; all else is the caller's.
Committer::Failure Committer::call_work(Request& request) {
  Failure failure;
  bool has_begun = false;
  try {
    backend_.transact([&](Transaction& transaction) {
      has_begun = true;
      request.batch_ = request.work_(transaction);
    });
  } catch (...) {
    if (!has_begun) {
      failure = failure_of_backend();
    }
    request.error_ = failure.of_rest ? failure.of_rest : std::current_exception();
  }
  return failure;
}

}  // namespace holdfast::detail
