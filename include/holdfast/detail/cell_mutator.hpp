// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/conversion.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/task.hpp>

namespace holdfast::detail {

/// One cell as all its handles in a process share it; see src/state/cell_slot.hpp.
class CellSlot;

/// What a cell holds; nothing before the first write.
using CellValue = std::optional<boost::json::value>;

/// Makes the next value of a cell from the current one. May be asked again, with the value of
/// whoever was quicker; one call at a time.
class CellMutator {
 public:
  CellMutator(const CellMutator&) = delete;
  CellMutator& operator=(const CellMutator&) = delete;
  virtual ~CellMutator() = default;

  /// Which of the two below is to be called.
  [[nodiscard]] virtual bool suspends() const noexcept { return false; }
  /// The same as `current` if nothing is to be written.
  [[nodiscard]] virtual CellValue next(const CellValue& current) = 0;
  [[nodiscard]] virtual Task<CellValue> next_later(const CellValue& current);

 protected:
  CellMutator() = default;
};

[[nodiscard]] const std::string& key_of(const CellSlot& slot) noexcept;
[[nodiscard]] Task<CellValue> read_cell(std::shared_ptr<CellSlot> slot);
/// Returns when the change is there, and durable if there is a store.
[[nodiscard]] Task<void> mutate_cell(std::shared_ptr<CellSlot> slot,
                                     std::shared_ptr<CellMutator> mutator);
/// A mutator that makes it `value`, whatever it was.
[[nodiscard]] std::shared_ptr<CellMutator> replace_with(boost::json::value value);
/// Whether there was something to erase.
[[nodiscard]] Task<bool> erase_cell(std::shared_ptr<CellSlot> slot);

[[noreturn]] void refuse_cell_type(std::string_view key, const std::string& why);

template <typename T>
T from_json(const boost::json::value& value, std::string_view key) {
  if constexpr (std::same_as<T, boost::json::value>) {
    return value;
  } else {
    auto converted = boost::json::try_value_to<T>(value);
    if (converted.has_error()) {
      refuse_cell_type(key, converted.error().message());
    }
    return *std::move(converted);
  }
}

template <typename T>
boost::json::value to_json(const T& value) {
  return boost::json::value_from(value);
}

/// How an update function takes its value: as a copy to make the next one from, or by reference, to
/// be changed in place.
template <typename Function, typename T>
struct UpdateForm {
  static constexpr bool kReturns = std::invocable<Function&, T>;
  static constexpr bool kInPlace = !kReturns && std::invocable<Function&, T&>;
  static_assert(kReturns || kInPlace,
                "an update function takes the cell's value, as T, const T& or T&");
  using Argument = std::conditional_t<kReturns, T, T&>;
  using Returned = UnwrapTask<std::invoke_result_t<Function&, Argument>>;
  static constexpr bool kSuspends = Returned::kIsTask;
  static_assert(
      kInPlace ? std::is_void_v<typename Returned::Type>
               : std::convertible_to<typename Returned::Type, T>,
      "an update function either takes T& and returns nothing (or Task<void>), or takes T "
      "or const T& and returns the new T (or Task<T>)");
};

/// A user's function as a mutator. Keeps the value that it made last.
template <typename T, typename Function>
class CellUpdate final : public CellMutator {
  using Form = UpdateForm<Function, T>;

 public:
  CellUpdate(const CellSlot& slot, std::shared_ptr<const T> initial, Function function)
      : slot_(slot), initial_(std::move(initial)), function_(std::move(function)) {}

  [[nodiscard]] T take_result() { return *std::move(result_); }

  [[nodiscard]] bool suspends() const noexcept override { return Form::kSuspends; }

  [[nodiscard]] CellValue next(const CellValue& current) override {
    T value = value_of(current);
    if constexpr (!Form::kSuspends) {
      if constexpr (Form::kReturns) {
        value = std::invoke(function_, std::move(value));
      } else {
        std::invoke(function_, value);
      }
    }
    return finish(current, std::move(value));
  }

  [[nodiscard]] Task<CellValue> next_later(const CellValue& current) override {
    T value = value_of(current);
    if constexpr (Form::kSuspends) {
      if constexpr (Form::kReturns) {
        auto task = std::invoke(function_, std::move(value));
        value = co_await task;
      } else {
        auto task = std::invoke(function_, value);
        co_await task;
      }
    }
    co_return finish(current, std::move(value));
  }

 private:
  T value_of(const CellValue& current) const {
    return current ? from_json<T>(*current, key_of(slot_)) : *initial_;
  }
  CellValue finish(const CellValue& current, T value) {
    CellValue next = to_json(value);
    if (!current && *next == to_json(*initial_)) {
      next.reset();  // Still what it was before the first write.
    }
    result_ = std::move(value);
    return next;
  }

  const CellSlot& slot_;
  std::shared_ptr<const T> initial_;
  Function function_;
  std::optional<T> result_;
};

template <typename T, typename Function>
Task<T> run_update(std::shared_ptr<CellSlot> slot,
                   std::shared_ptr<CellUpdate<T, Function>> update) {
  Task<void> mutation = mutate_cell(std::move(slot), update);
  co_await mutation;
  co_return update->take_result();
}

/// A change that has not started: what `Cell::update` returns. Await it, or take its task, once.
/// `Given` is what the caller wrote for it.
template <typename T, typename Given>
class [[nodiscard]] CellOperation {
 public:
  explicit CellOperation(Task<T> task) noexcept : task_(std::move(task)) {}
  CellOperation(const CellOperation&) = delete;
  CellOperation& operator=(const CellOperation&) = delete;
  ~CellOperation() = default;

  auto operator co_await() & { return OwnedTask<T>(std::move(task_)); }
  auto operator co_await() && {
    refuse_what_breaks();
    return OwnedTask<T>(std::move(task_));
  }

  /// For `spawn`, `sync_wait`, `all` and `any`.
  [[nodiscard]] Task<T> task() & { return std::move(task_); }
  [[nodiscard]] Task<T> task() && {
    refuse_what_breaks();
    return std::move(task_);
  }

 private:
  static constexpr void refuse_what_breaks() {
    static_assert(
        !HOLDFAST_AWAITED_TEMPORARIES_BREAK || std::is_trivially_destructible_v<Given>,
        "this compiler (g++ before 13) destroys the captures of a lambda, and the members of a "
        "value in braces, twice inside a co_await: name the operation first (auto change = "
        "cell.update(...);), then co_await change; or capture by reference only");
  }

  Task<T> task_;
};

/// The verbs on JSON, each on what `path` points to. All return what the verb promises, as JSON.
struct JsonVerb {
  enum class Kind { kPatch, kPush, kAdd, kSetRecord, kDeleteRecord };
  Kind kind;
  std::string path;
  std::string key;
  boost::json::value value;
};
[[nodiscard]] Task<boost::json::value> run_verb(std::shared_ptr<CellSlot> slot,
                                                std::shared_ptr<const boost::json::value> initial,
                                                JsonVerb verb);

/// Gives the values of a cell one after the other.
class CellNews {
 public:
  CellNews(const CellNews&) = delete;
  CellNews& operator=(const CellNews&) = delete;
  virtual ~CellNews() = default;
  [[nodiscard]] virtual Task<CellValue> next() = 0;

 protected:
  CellNews() = default;
};
[[nodiscard]] std::unique_ptr<CellNews> watch_cell(std::shared_ptr<CellSlot> slot);

}  // namespace holdfast::detail
