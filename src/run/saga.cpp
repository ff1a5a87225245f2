// SPDX-License-Identifier: Apache-2.0
#include <holdfast/saga.hpp>

#include <exception>
#include <utility>

#include "run_failure.hpp"

namespace holdfast::detail {

Task<void> run_undos(Context& context, Undos& undos) {
  std::exception_ptr first;
  while (!undos.empty()) {
    const std::unique_ptr<Undo> undo = std::move(undos.back());
    undos.pop_back();
    const Outcome<void> undone = co_await context.attempt(undo->run(context));
    if (!undone && !first) {
      first = undone.error();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

void throw_both(const std::exception_ptr& failure, const std::exception_ptr& compensation) {
  const record::RunFailure undoing = failure_of(compensation);
  std::string text = message_of(failure);
  text.append("; and to undo what was done before failed, too: ").append(undoing.message());
  throw StepFailed(undoing.type(), text, undoing.code());
}

}  // namespace holdfast::detail
