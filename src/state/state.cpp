// SPDX-License-Identifier: Apache-2.0
#include <holdfast/state.hpp>

#include <utility>

#include "cell_key.hpp"
#include "cell_slot.hpp"
#include "store/printable.hpp"

namespace holdfast {

namespace {

StateOptions checked(const StateOptions& options) {
  if (options.mutation_timeout && *options.mutation_timeout <= Duration::zero()) {
    throw InvalidArgument(
        "a mutation_timeout that is not above zero was asked for; to switch it "
        "off give none");
  }
  if (options.attempts_max == 0) {
    throw InvalidArgument("attempts_max is 0; give at least one");
  }
  if (options.back_off_min <= Duration::zero() || options.back_off_max < options.back_off_min) {
    throw InvalidArgument("back_off_min must be above zero, and back_off_max not below it");
  }
  return options;
}

}  // namespace

ConcurrentModification::ConcurrentModification(std::string key, std::uint32_t attempts)
    : ErrorOf("the cell " + detail::printable(key) + " was changed by others at each of " +
              std::to_string(attempts) + " attempts to change it; nothing was written"),
      key_(std::move(key)),
      attempts_(attempts) {}

MutationTimeout::MutationTimeout(std::string key, bool started)
    : ErrorOf("the change of the cell " + detail::printable(key) +
              (started ? " did not end before its time-out; its function goes on, and the change "
                         "may still come"
                       : " did not start before its time-out; it has left the line, and changes "
                         "nothing")),
      key_(std::move(key)),
      started_(started) {}

std::string Scope::key_of(std::string_view name) const {
  return prefix_ + detail::checked_key_part("name of the cell", name);
}

State::State(const StateOptions& options)
    : core_(std::make_shared<detail::StateCore>(nullptr, checked(options))) {}

State::State(Store& store, const StateOptions& options)
    : core_(std::make_shared<detail::StateCore>(&store, checked(options))) {
  require_capabilities(store, {.atomic = true}, "State");
}

State::~State() { core_->close(); }

Scope State::scope(std::string_view kind, std::string_view id) const {
  return {core_, detail::scope_prefix(kind, id)};
}

Scope State::global() const { return {core_, detail::global_prefix()}; }

std::size_t State::size() const { return core_->size(); }

}  // namespace holdfast
