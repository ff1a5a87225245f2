// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/cell.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/durable.hpp>

namespace holdfast {

namespace detail {

[[nodiscard]] std::shared_ptr<RunOperation> begin_state(RunMachine& machine, std::string_view key,
                                                        std::unique_ptr<StateCode> code);
[[nodiscard]] std::string run_cell_key(const std::string& prefix, std::string_view name);

class ReadCell final : public StateCode {
 public:
  explicit ReadCell(boost::json::value initial) : initial_(std::move(initial)) {}
  [[nodiscard]] Change apply(const std::optional<boost::json::value>& current) override {
    return {current ? *current : initial_, false, std::nullopt};
  }

 private:
  boost::json::value initial_;
};

class SetCell final : public StateCode {
 public:
  explicit SetCell(boost::json::value value) : value_(std::move(value)) {}
  [[nodiscard]] Change apply(const std::optional<boost::json::value>& current) override {
    return {nullptr, current != value_, value_};
  }

 private:
  boost::json::value value_;
};

class EraseCell final : public StateCode {
 public:
  [[nodiscard]] Change apply(const std::optional<boost::json::value>& current) override {
    return {current.has_value(), current.has_value(), std::nullopt};
  }
};

/// How an update function takes the value: as a copy to make the next one from, or by reference, to
/// be changed in place; then it may return something else.
template <typename Function, typename T>
struct RunUpdateForm {
  static constexpr bool kReplaces = std::invocable<Function&, T>;
  static_assert(kReplaces || std::invocable<Function&, T&>,
                "an update function takes the cell's value, as T, const T& or T&");
  using Returned = std::invoke_result_t<Function&, std::conditional_t<kReplaces, T, T&>>;
  static_assert(!UnwrapTask<Returned>::kIsTask,
                "in a workflow an update function does not wait: it is part of one commit");
  static_assert(!kReplaces || std::convertible_to<Returned, T>,
                "an update function takes T& and changes it, or takes T or const T& and returns "
                "the new T");
  static constexpr bool kAnswers = !kReplaces && !std::is_void_v<Returned>;
  using Answer = std::conditional_t<kAnswers, std::remove_cvref_t<Returned>, T>;
};

template <typename T, typename Function>
class UpdateCell final : public StateCode {
  using Form = RunUpdateForm<Function, T>;

 public:
  UpdateCell(std::string key, T initial, Function function)
      : key_(std::move(key)), initial_(std::move(initial)), function_(std::move(function)) {}

  [[nodiscard]] Change apply(const std::optional<boost::json::value>& current) override {
    T value = current ? from_payload<T>(*current, key_) : initial_;
    Change change;
    if constexpr (Form::kReplaces) {
      value = std::invoke(function_, std::move(value));
    } else if constexpr (Form::kAnswers) {
      change.answer = to_payload(std::invoke(function_, value));
    } else {
      std::invoke(function_, value);
    }
    change.value = to_payload(value);
    if constexpr (!Form::kAnswers) {
      change.answer = *change.value;
    }
    // What it was before the first write is no change, either.
    change.writes = change.value != (current ? current : std::optional(to_payload(initial_)));
    return change;
  }

 private:
  std::string key_;
  T initial_;
  Function function_;
};

}  // namespace detail

/// A cell, as a run changes it: in the commit that records it, so once, whatever dies when. Others
/// see the same cell through `State`.
///
/// ```
/// auto total = ctx.state<std::int64_t>("total");
/// auto add = total.update([amount](std::int64_t& it) { it += amount; });
/// const std::int64_t now = co_await add;
/// ```
///
/// A value that is of another type is a `BadPayload` where it is awaited. The run outlives it.
template <CellType T>
class RunCell {
  /// With g++ before 13, what is written in braces inside a co_await is destroyed twice.
  static constexpr bool kSafeInBraces =
      !std::is_aggregate_v<T> || std::is_trivially_destructible_v<T>;

 public:
  /// `Context` and `RunScope` make it.
  RunCell(detail::RunMachine& machine, std::string key, T initial)
      : machine_(&machine), key_(std::move(key)), initial_(std::move(initial)) {}

  /// Its key in the store.
  [[nodiscard]] const std::string& key() const noexcept { return key_; }

  /// The value, or `initial` before the first write.
  [[nodiscard]] Durable<T> get() const {
    return begin<T>(std::make_unique<detail::ReadCell>(detail::to_payload(initial_)));
  }
  [[nodiscard]] Durable<void> set(const T& value) const {
    return begin<void>(std::make_unique<detail::SetCell>(detail::to_payload(value)));
  }
  [[nodiscard]] Durable<void, kSafeInBraces> set(T&& value) const {
    return begin<void, kSafeInBraces>(
        std::make_unique<detail::SetCell>(detail::to_payload(std::move(value))));
  }
  /// `function` takes T& and changes it, or takes T or const T& and returns the new one. The new
  /// value, or what the one that takes T& returns. It may run several times, on values of others
  /// who were quicker, so it should do nothing else; if it throws, nothing is changed.
  template <typename Function>
  [[nodiscard]] auto update(Function function) const {
    using Answer = typename detail::RunUpdateForm<Function, T>::Answer;
    return begin<Answer, std::is_trivially_destructible_v<Function>>(
        std::make_unique<detail::UpdateCell<T, Function>>(key_, initial_, std::move(function)));
  }
  /// As if it had never been written. False if there was nothing.
  [[nodiscard]] Durable<bool> erase() const {
    return begin<bool>(std::make_unique<detail::EraseCell>());
  }

 private:
  template <typename Answer, bool kMayBeTemporary = true>
  Durable<Answer, kMayBeTemporary> begin(std::unique_ptr<detail::StateCode> code) const {
    return {detail::begin_state(*machine_, key_, std::move(code)), key_};
  }

  detail::RunMachine* machine_;
  std::string key_;
  T initial_;
};

/// The cells of one execution, workflow, user or the like, for a run.
class RunScope {
 public:
  RunScope(detail::RunMachine& machine, std::string prefix) noexcept
      : machine_(&machine), prefix_(std::move(prefix)) {}

  /// The cell with this name; `initial` is its value before the first write.
  template <CellType T>
  [[nodiscard]] RunCell<T> cell(std::string_view name, T initial = T{}) const {
    return {*machine_, detail::run_cell_key(prefix_, name), std::move(initial)};
  }
  /// What the keys of all its cells begin with, and no others.
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }

 private:
  detail::RunMachine* machine_;
  std::string prefix_;
};

}  // namespace holdfast
