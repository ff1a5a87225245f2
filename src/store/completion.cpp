// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <holdfast/error.hpp>

namespace holdfast::detail {

bool Completion::start(TaskContext& context, std::coroutine_handle<> task) {
  context_ = &context;
  task_ = task;
  if (!context.begin_wait(*this)) {
    return false;
  }
  began_ = true;
  begin();
  Progress starting = Progress::kStarting;
  return progress_.compare_exchange_strong(starting, Progress::kSuspended,
                                           std::memory_order_acq_rel);
}

void Completion::complete() noexcept {
  TaskContext* const context = context_;
  const std::coroutine_handle<> task = task_;
  if (progress_.exchange(Progress::kComplete, std::memory_order_acq_rel) == Progress::kSuspended) {
    context->schedule_next(task);
  }
}

void Completion::complete(Wakeups& wakeups) noexcept {
  TaskContext* const context = context_;
  const std::coroutine_handle<> task = task_;
  if (progress_.exchange(Progress::kComplete, std::memory_order_acq_rel) == Progress::kSuspended) {
    wakeups.add(*context, task);
  }
}

void Wakeups::add(TaskContext& context, std::coroutine_handle<> task) noexcept {
  if (executor_ != &context.executor()) {
    wake();
    executor_ = &context.executor();
  }
  works_.push(context.work_to_resume(task));
  if (++count_ == kTogether) {
    wake();
  }
}

void Wakeups::wake() noexcept {
  if (!works_.empty()) {
    executor_->post_all(works_);
    count_ = 0;
  }
}

void Completion::await_resume() {
  if (!began_) {
    throw Cancelled("'" + context_->name() + "' was asked to stop, so this was not begun");
  }
  context_->end_wait();
}

}  // namespace holdfast::detail
