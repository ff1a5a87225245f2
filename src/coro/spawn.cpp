// SPDX-License-Identifier: Apache-2.0
#include <holdfast/spawn.hpp>

#include <utility>

#include <holdfast/error.hpp>

namespace holdfast::detail {

void refuse_inside_task(const char* function) {
  if (const auto* context = TaskContext::current(); context != nullptr) {
    throw WrongContext(std::string(function) + " would block the thread that runs '" +
                       context->name() + "': use co_await there");
  }
}

void SpawnState::wait() {
  refuse_inside_task("get()");
  std::unique_lock lock(mutex_);
  ended_changed_.wait(lock, [this] { return ended_.load(); });
}

SpawnState::Join SpawnState::join(TaskContext& joiner, std::coroutine_handle<> coroutine) noexcept {
  const std::scoped_lock lock(mutex_);
  HOLDFAST_CHECK(joiner_ == nullptr, "a spawned task was awaited by two at once");
  if (std::exchange(left_, false)) {
    return Join::kLeft;
  }
  if (ended_) {
    return Join::kEnded;
  }
  joiner_ = &joiner;
  joiner_coroutine_ = coroutine;
  return Join::kWillResume;
}

void SpawnState::leave() noexcept {
  TaskContext* joiner = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) {
      return;
    }
    joiner = std::exchange(joiner_, nullptr);
    left_ = joiner == nullptr;
  }
  if (joiner != nullptr) {
    joiner->schedule(joiner_coroutine_);
  }
}

void SpawnState::end() noexcept {
  context_.leave_executor();
  TaskContext* joiner = nullptr;
  bool detached = false;
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    detached = detached_;
    joiner = std::exchange(joiner_, nullptr);
    // Under the lock: the one who waits may destroy this as soon as it is released.
    ended_changed_.notify_all();
  }
  if (joiner != nullptr) {
    joiner->schedule(joiner_coroutine_);
  }
  if (detached) {
    die_if_failed();
  }
}

void SpawnState::detach() noexcept {
  bool ended = false;
  {
    const std::scoped_lock lock(mutex_);
    detached_ = true;
    ended = ended_;
  }
  if (ended) {
    die_if_failed();
  }
}

void SpawnState::die_if_failed() noexcept {
  if (const auto error = failure(); error != nullptr) {
    try {
      std::rethrow_exception(error);
    } catch (const Cancelled&) {  // What is asked to stop may stop unseen.
    } catch (const std::exception& exception) {
      check_failed("a failure is seen by someone",
                   "'" + context_.name() + "' failed and nobody waits for it: " + exception.what(),
                   __FILE__, __LINE__);
    } catch (...) {
      check_failed("a failure is seen by someone",
                   "'" + context_.name() + "' failed and nobody waits for it", __FILE__, __LINE__);
    }
  }
}

}  // namespace holdfast::detail
