// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <holdfast/workflow.hpp>

#include "run_machine.hpp"

namespace holdfast {

namespace detail {

boost::json::value RunOperation::take(std::string_view what) {
  if (auto* value = std::get_if<boost::json::value>(&outcome_)) {
    return std::move(*value);
  }
  if (auto* error = std::get_if<std::exception_ptr>(&outcome_)) {
    std::rethrow_exception(*error);
  }
  throw Cancelled("the run was asked to stop while it waited for '" + std::string(what) + "'");
}

void check_is_workflow(bool is_workflow) {
  if (!is_workflow) {
    throw WrongContext(
        "a workflow awaits a task that does not take its Context: such a task can await what would "
        "not happen again in a replay. Give it the Context, or call it in a step");
  }
}

}  // namespace detail

const std::string& Context::run_id() const noexcept { return machine_.facts().id; }
const std::string& Context::type() const noexcept { return machine_.facts().type; }
bool Context::is_replaying() const noexcept { return machine_.is_replaying(); }
StoreTime Context::now() const noexcept { return machine_.now(); }
std::uint64_t Context::random() noexcept { return machine_.random(); }

std::string Context::uuid() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  // Version 4, variant 1: random but for six bits that say so.
  const std::array<std::uint64_t, 2> bits{
      (random() & ~std::uint64_t{0xf000}) | 0x4000U,
      (random() & ~(std::uint64_t{3} << 62U)) | (std::uint64_t{2} << 62U)};
  std::string text;
  for (std::size_t i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) {
      text.push_back('-');
    }
    text.push_back(kDigits[(bits[i / 16] >> (60U - 4U * (i % 16))) & 0xfU]);
  }
  return text;
}

std::int64_t Context::version(std::string_view change, std::int64_t oldest, std::int64_t newest) {
  return machine_.version(change, oldest, newest);
}

Durable<void> Context::sleep_until(StoreTime due) { return {machine_.begin_timer(due), "sleep"}; }

std::shared_ptr<detail::RunOperation> Context::begin_step(std::string_view name,
                                                          std::unique_ptr<detail::StepCode> code) {
  return machine_.begin_step(name, std::move(code));
}

std::shared_ptr<detail::RunOperation> Context::begin_signal(std::string_view name) {
  return machine_.begin_signal(name);
}

}  // namespace holdfast
