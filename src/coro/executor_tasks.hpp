// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>

#include <holdfast/detail/task_context.hpp>
#include <holdfast/executor.hpp>

namespace holdfast {

/// The tasks that were spawned on an executor and have not ended.
class Executor::Tasks {
 public:
  explicit Tasks(Executor& executor) noexcept : executor_(executor) {}

  /// False if the executor is ending: the task should stop at once.
  bool add(detail::TaskContext& context);
  void remove(detail::TaskContext& context) noexcept;
  void request_stop() noexcept;
  void wait_until_empty() noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  /// The name of one of them.
  [[nodiscard]] std::string example() const;

 private:
  Executor& executor_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  detail::TaskContext* first_ = nullptr;
  std::size_t size_ = 0;
  bool stopping_ = false;
};

}  // namespace holdfast
