// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/fork.hpp>

namespace holdfast::detail {

void Fork::add(Branch branch) { branches_.emplace_back(std::move(branch)); }

void Fork::start(TaskContext& parent, std::coroutine_handle<> coroutine) {
  parent_ = &parent;
  coroutine_ = coroutine;
  running_ = branches_.size();
  std::size_t index = 0;
  for (auto& running : branches_) {
    auto& promise = running.branch.coroutine_.promise();
    promise.fork_ = this;
    promise.index_ = index;
    running.context.emplace(parent, index, decision_ == Decision::kFirstFailure);
    promise.set_root(*running.context);
    ++index;
  }
  if (!parent.begin_wait(*this)) {
    cancel();
  }
  // The last branch to end may resume the parent, and end this fork, before the loop is over.
  const std::size_t count = branches_.size();
  for (std::size_t i = 0; i < count; ++i) {
    auto& running = branches_[i];
    running.context->schedule(running.branch.coroutine_);
  }
}

void Fork::cancel() noexcept {
  for (auto& running : branches_) {
    running.context->request_stop();
  }
}

void Fork::branch_ended(std::size_t index, bool failed) noexcept {
  if (failed || decision_ == Decision::kFirstEnd) {
    std::size_t undecided = kUndecided;
    if (decided_by_.compare_exchange_strong(undecided, index)) {
      cancel();
    }
  }
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    parent_->schedule(coroutine_);
  }
}

std::optional<std::size_t> Fork::await_resume() noexcept {
  if (parent_ != nullptr) {
    parent_->end_wait();
  }
  const std::size_t index = decided_by_.load(std::memory_order_acquire);
  return index == kUndecided ? std::nullopt : std::optional(index);
}

}  // namespace holdfast::detail
