// SPDX-License-Identifier: Apache-2.0
// Batches on their way and waits for the disk, as those see them who make them.
#include <mutex>
#include <string>
#include <utility>

#include <holdfast/error.hpp>

#include "committer.hpp"

namespace holdfast::detail {

void Committer::Request::begin() {
  Committer& committer = committer_;
  {
    const std::lock_guard lock(committer.mutex_);
    ++committer.arrived_;
    bool completed = false;
    if (committer.failed_) {
      error_ = committer.failed_;
      completed = true;
    } else if (work_ || !committer.can_decide_at_once(batch_)) {
      give_up_at_ = MonotonicTime::now() + committer.limits_.busy_timeout;
      committer.queue_.push(*this);
    } else {
      completed = committer.complete_when_decided(*this);
    }
    if (!completed) {
      committer.wake();
      return;
    }
  }
  complete();
}

std::optional<CommitOutcome> Committer::try_apply(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  if (failed_ || !can_decide_at_once(batch)) {
    return std::nullopt;
  }
  ++arrived_;
  return decide(batch);
}

void Committer::Request::stop() noexcept {
  {
    const std::lock_guard lock(committer_.mutex_);
    if (!queued_) {
      return;
    }
    committer_.queue_.remove(*this);
    error_ = std::make_exception_ptr(
        Cancelled("a commit to " + committer_.backend_.url() +
                  " was asked to stop before it was decided: nothing happened"));
  }
  complete();
}

CommitOutcome Committer::Request::result() {
  if (error_) {
    std::rethrow_exception(error_);
  }
  return *std::move(outcome_);
}

void Committer::Durable::begin() {
  if (!committer_.is_surely_durable(version_)) {
    const std::lock_guard lock(committer_.mutex_);
    if (const Lost* lost = committer_.find_lost(version_)) {
      error_ = lost->why;
    } else if (version_ > committer_.durable_ && version_ <= committer_.last_) {
      const bool writing = version_ <= committer_.writing_last_;
      (writing ? committer_.for_writing_ : committer_.for_gathering_).durables.push_back(this);
      committer_.wake();
      return;
    }
  }
  complete();
}

void Committer::Durable::stop() noexcept {
  {
    const std::lock_guard lock(committer_.mutex_);
    if (std::erase(committer_.for_writing_.durables, this) +
            std::erase(committer_.for_gathering_.durables, this) ==
        0) {
      return;
    }
    error_ = std::make_exception_ptr(
        Cancelled("the wait for commit " + std::to_string(version_) + " was asked to stop"));
  }
  complete();
}

void Committer::Durable::rethrow() const {
  if (error_) {
    std::rethrow_exception(error_);
  }
}

void Committer::Queue::push(Request& request) noexcept {
  request.queued_ = true;
  request.previous_ = last_;
  request.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &request;
  last_ = &request;
}

void Committer::Queue::remove(Request& request) noexcept {
  request.queued_ = false;
  (request.previous_ == nullptr ? first_ : request.previous_->next_) = request.next_;
  (request.next_ == nullptr ? last_ : request.next_->previous_) = request.previous_;
}

void Committer::Waiters::append(Waiters& others) {
  if (requests.empty()) {
    requests.swap(others.requests);
  }
  requests.insert(requests.end(), others.requests.begin(), others.requests.end());
  durables.insert(durables.end(), others.durables.begin(), others.durables.end());
  others.requests.clear();
  others.durables.clear();
}

void Committer::complete(const std::vector<Request*>& requests) noexcept {
  Wakeups wakeups;
  for (Request* request : requests) {
    request->complete(wakeups);
  }
}

void Committer::complete(const Waiters& waiters, const std::exception_ptr& error) noexcept {
  Wakeups wakeups;
  for (Request* request : waiters.requests) {
    request->error_ = error;
    request->complete(wakeups);
  }
  for (Durable* durable : waiters.durables) {
    durable->error_ = error;
    durable->complete(wakeups);
  }
}

}  // namespace holdfast::detail
