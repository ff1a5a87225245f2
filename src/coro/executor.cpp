// SPDX-License-Identifier: Apache-2.0
#include <holdfast/executor.hpp>

#include <utility>
#include <vector>

#include <holdfast/detail/check.hpp>

#include "executor_tasks.hpp"

namespace holdfast {

bool Executor::Tasks::add(detail::TaskContext& context) {
  const std::scoped_lock lock(mutex_);
  context.next_task_ = first_;
  if (first_ != nullptr) {
    first_->previous_task_ = &context;
  }
  first_ = &context;
  if (size_++ == 0) {
    executor_.tasks_began();
  }
  return !stopping_;
}

void Executor::Tasks::remove(detail::TaskContext& context) noexcept {
  const std::scoped_lock lock(mutex_);
  (context.previous_task_ == nullptr ? first_ : context.previous_task_->next_task_) =
      context.next_task_;
  if (context.next_task_ != nullptr) {
    context.next_task_->previous_task_ = context.previous_task_;
  }
  if (--size_ == 0) {
    executor_.tasks_ended();
    empty_.notify_all();
  }
}

void Executor::Tasks::request_stop() noexcept {
  // A stop runs callbacks of the program, which may spawn or end tasks: not under the lock.
  std::vector<std::pair<std::shared_ptr<void>, detail::TaskContext*>> tasks;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    tasks.reserve(size_);
    for (auto* context = first_; context != nullptr; context = context->next_task_) {
      if (auto owner = context->owner_.lock(); owner != nullptr) {
        tasks.emplace_back(std::move(owner), context);
      }
    }
  }
  for (const auto& [owner, context] : tasks) {
    context->request_stop();
  }
}

void Executor::Tasks::wait_until_empty() noexcept {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return size_ == 0; });
}

std::size_t Executor::Tasks::size() const noexcept {
  const std::scoped_lock lock(mutex_);
  return size_;
}

std::string Executor::Tasks::example() const {
  const std::scoped_lock lock(mutex_);
  return first_ == nullptr ? std::string{} : first_->name();
}

Executor::Executor() : tasks_(std::make_unique<Tasks>(*this)) {}
Executor::Executor(SpawnsNothing /*tag*/) noexcept {}
Executor::~Executor() = default;

void Executor::post_all(detail::WorkList& works) noexcept {
  while (!works.empty()) {
    post(works.pop());
  }
}

void Executor::drive_until(const std::function<bool()>& /*done*/) {}

std::size_t Executor::task_count() const noexcept { return tasks_ == nullptr ? 0 : tasks_->size(); }
void Executor::stop_tasks() noexcept { tasks_->request_stop(); }
void Executor::wait_for_tasks() noexcept { tasks_->wait_until_empty(); }

void Executor::check_no_tasks() noexcept {
  HOLDFAST_CHECK(task_count() == 0, "an executor was destroyed while '" + tasks_->example() +
                                        "' ran on it, which did not end when asked to stop");
}

}  // namespace holdfast
