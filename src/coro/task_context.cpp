// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <holdfast/detail/task_context.hpp>

#include "executor_tasks.hpp"

namespace holdfast::detail {

namespace {

thread_local TaskContext* current_context = nullptr;

std::uint64_t next_context_id() noexcept {
  static std::atomic<std::uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

TaskContext::TaskContext(Executor& executor, std::string name)
    : executor_(executor), id_(next_context_id()), name_(std::move(name)) {
  resume_work_.run = &TaskContext::resume;
  resume_work_.context = this;
}

TaskContext::TaskContext(TaskContext& parent, std::size_t index, bool needed)
    : TaskContext(parent.executor_, {}) {
  parent_ = &parent;
  branch_index_ = index;
  needed_ = needed;
}

TaskContext::~TaskContext() {
  outer_stop_.reset();
  delete stop_source_.load(std::memory_order_acquire);
}

void TaskContext::join_executor(const std::shared_ptr<void>& owner, const std::stop_token& stop) {
  owner_ = owner;
  if (!executor_.tasks_->add(*this)) {
    request_stop();
  }
  if (stop.stop_possible()) {
    outer_stop_.emplace(stop, RequestStop{this});
  }
}

void TaskContext::leave_executor() noexcept { executor_.tasks_->remove(*this); }

std::string TaskContext::name() const {
  if (parent_ != nullptr) {
    return parent_->name() + "/" + std::to_string(branch_index_);
  }
  return name_.empty() ? "task " + std::to_string(id_) : name_;
}

void TaskContext::request_stop() noexcept {
  std::uintptr_t value = slot_.load(std::memory_order_acquire);
  do {
    if ((value & kStopped) != 0) {
      return;
    }
  } while (!slot_.compare_exchange_weak(value, value | kStopped | kCancelling,
                                        std::memory_order_seq_cst));
  if (auto* wait = reinterpret_cast<Wait*>(value); wait != nullptr) {
    wait->cancel();
  }
  slot_.store(kStopped, std::memory_order_seq_cst);
  slot_.notify_all();
  if (auto* source = stop_source_.load(std::memory_order_seq_cst); source != nullptr) {
    source->request_stop();
  }
}

void TaskContext::end_wait_while_stopping() noexcept {
  std::uintptr_t value = slot_.load(std::memory_order_acquire);
  while (value != kStopped) {
    slot_.wait(value, std::memory_order_acquire);
    value = slot_.load(std::memory_order_acquire);
  }
}

std::stop_token TaskContext::stop_token() {
  auto* source = stop_source_.load(std::memory_order_acquire);
  if (source == nullptr) {
    source = new std::stop_source;
    stop_source_.store(source, std::memory_order_seq_cst);
    // A stop that came before the store did not see the source; one that comes after it will.
    if ((slot_.load(std::memory_order_seq_cst) & kStopped) != 0) {
      source->request_stop();
    }
  }
  return source->get_token();
}

[[gnu::noinline]] TaskContext* TaskContext::current() noexcept { return current_context; }

void TaskContext::continue_with(std::coroutine_handle<> coroutine) noexcept {
  if (current_context == this) {
    trampoline_->next = coroutine;
  } else {
    schedule(coroutine);
  }
}

void TaskContext::resume(Work& work) noexcept {
  TaskContext& context = *static_cast<ResumeWork&>(work).context;
  Trampoline trampoline{std::exchange(context.resume_next_, nullptr)};
  context.bounce(trampoline);
}

void TaskContext::bounce(Trampoline& trampoline) noexcept {
  trampoline_ = &trampoline;
  TaskContext* const outer = std::exchange(current_context, this);
  if (outer != nullptr && &outer->executor_ == &executor_) {
    resume_work_.ran_in = outer->resume_work_.ran_in;  // It was begun in the same thread.
  }
  while (trampoline.next) {
    // When the coroutine suspends without a successor, another thread may own this context by the
    // time `resume` returns, or it may be gone: only the local trampoline is touched from here on.
    std::exchange(trampoline.next, nullptr).resume();
  }
  current_context = outer;
}

}  // namespace holdfast::detail
