// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <holdfast/detail/cell_mutator.hpp>
#include <holdfast/state_error.hpp>
#include <holdfast/store_error.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// What a cell may hold: `boost::json::value`, and what Boost.JSON converts to and from it, structs
/// that Boost.Describe describes included.
template <typename T>
concept CellType = std::copyable<T> &&
                   (std::same_as<T, boost::json::value> ||
                    (boost::json::has_value_from<T>::value && boost::json::has_value_to<T>::value));

/// The values of a cell, as they come: what `Cell::watch` returns. For one task at a time.
template <CellType T>
class CellWatch {
 public:
  CellWatch(std::unique_ptr<detail::CellNews> news, std::string key)
      : news_(std::move(news)), key_(std::move(key)) {}

  /// At first what the cell holds, at once; then waits until it was written since. Nothing while it
  /// has not been written, or was erased. Of several changes in a row it may give only the last.
  /// Throws what reading does, and `Closed` when the store is.
  [[nodiscard]] Task<std::optional<T>> next() { return next_of(*news_, key_); }

 private:
  static Task<std::optional<T>> next_of(detail::CellNews& news, const std::string& key) {
    Task<detail::CellValue> reading = news.next();
    const detail::CellValue value = co_await reading;
    std::optional<T> converted;
    if (value) {
      converted = detail::from_json<T>(*value, key);
    }
    co_return converted;
  }

  std::unique_ptr<detail::CellNews> news_;
  std::string key_;
};

/// A value that many change at once, and nobody's change is lost. A `State` makes it.
///
/// ```
/// State state(*store);
/// Cell<std::int64_t> visits = state.user("42").cell<std::int64_t>("visits");
/// const auto count = co_await visits.update([](std::int64_t n) { return n + 1; });
/// ```
///
/// Changes of one cell are made one at a time, in the order in which they were asked for, over all
/// its handles of one `State`. In a store they are also checked against other processes: if one was
/// quicker, the function runs again on what is there now, after a pause that grows from the second
/// time on. A change is durable when it returns. A function that throws fails its caller alone and
/// changes nothing, and a change that makes no difference writes nothing.
///
/// A handle is cheap to copy, and thread-safe. Changing a cell inside its own update function
/// throws `ReentrantMutation`; other cells are fine.
template <CellType T>
class Cell {
  static constexpr bool kIsJson = std::same_as<T, boost::json::value>;

 public:
  /// See `State` and `Scope` for how to get one.
  Cell(std::shared_ptr<detail::CellSlot> slot, T initial)
      : slot_(std::move(slot)), initial_(std::make_shared<const T>(std::move(initial))) {}

  /// Its key in the store.
  [[nodiscard]] const std::string& key() const noexcept { return detail::key_of(*slot_); }

  /// The value, or `initial` before the first write. Waits for nobody.
  [[nodiscard]] Task<T> get() const { return get_or_initial(slot_, initial_); }
  /// The value, or nothing before the first write.
  [[nodiscard]] Task<std::optional<T>> find() const { return find_in(slot_); }

  /// Makes it `value`, which counts as a write even if it equals `initial`. With g++ 12, name a
  /// value, or the operation, that is written in braces.
  [[nodiscard]] Task<void> set(const T& value) { return set_in(slot_, value); }
  [[nodiscard]] auto set(T&& value) {
    if constexpr (std::is_aggregate_v<T>) {
      return detail::CellOperation<void, T>(set_in(slot_, value));
    } else {
      return set_in(slot_, value);
    }
  }

  /// Makes it what `function` makes of it, and returns the new value. The function takes T or
  /// const T& and returns the new T, or takes T& and changes it; or is a coroutine that does so and
  /// returns a `Task`. It may run several times, so it should do nothing else. With g++ 12, name
  /// the operation if the function captures more than references:
  ///
  /// ```
  /// auto rename = profile.update([name](Profile& it) { it.name = name; });
  /// co_await rename;
  /// ```
  ///
  /// A coroutine for a cell in memory should own what it uses: see `MutationTimeout`.
  template <typename Function>
  [[nodiscard]] auto update(Function function) {
    auto update =
        std::make_shared<detail::CellUpdate<T, Function>>(*slot_, initial_, std::move(function));
    return detail::CellOperation<T, Function>(
        detail::run_update<T, Function>(slot_, std::move(update)));
  }

  /// Forgets the cell: it is as if it had never been written, so `initial` counts again. False if
  /// there was nothing. Also a damaged cell can be erased.
  [[nodiscard]] Task<bool> erase() { return detail::erase_cell(slot_); }

  [[nodiscard]] CellWatch<T> watch() const { return {detail::watch_cell(slot_), key()}; }

  // The verbs on JSON. A path is a JSON Pointer (RFC 6901): "/cart/items", or "" for the whole.
  // Members that are missing on the way are made; null is as good as missing. What is there and of
  // another kind is an `InvalidArgument`, and nothing is changed. With g++ 12, JSON in braces
  // inside a co_await does not compile: name it first.

  /// Merges `changes` into it (RFC 7396): members replace members, null removes them. Returns the
  /// new value.
  [[nodiscard]] Task<boost::json::value> patch(boost::json::value changes)
    requires kIsJson
  {
    return verb({Kind::kPatch, {}, {}, std::move(changes)});
  }

  /// Appends to a list; a missing one is made. Returns its new length.
  [[nodiscard]] Task<std::size_t> push(std::string_view path, boost::json::value item)
    requires kIsJson
  {
    return size_of(verb({Kind::kPush, std::string(path), {}, std::move(item)}));
  }

  /// Adds to a number; a missing one is 0. Returns the new one. Beyond 64 bits it is an
  /// `InvalidArgument`, and nothing is changed.
  [[nodiscard]] Task<boost::json::value> inc(std::string_view path, std::integral auto by)
    requires kIsJson
  {
    return verb({Kind::kAdd, std::string(path), {}, boost::json::value(by)});
  }
  [[nodiscard]] Task<boost::json::value> inc(std::string_view path, double by)
    requires kIsJson
  {
    return verb({Kind::kAdd, std::string(path), {}, boost::json::value(by)});
  }
  [[nodiscard]] Task<boost::json::value> inc(std::string_view path)
    requires kIsJson
  {
    return inc(path, 1);
  }

  /// Sets one member of an object; a missing object is made. `key` is taken as it is.
  [[nodiscard]] Task<void> set_record(std::string_view path, std::string_view key,
                                      boost::json::value value)
    requires kIsJson
  {
    return nothing_of(
        verb({Kind::kSetRecord, std::string(path), std::string(key), std::move(value)}));
  }

  /// Removes one member of an object. False if it was not there.
  [[nodiscard]] Task<bool> delete_record(std::string_view path, std::string_view key)
    requires kIsJson
  {
    return truth_of(verb({Kind::kDeleteRecord, std::string(path), std::string(key), {}}));
  }

  /// `update` by its name among the verbs: whatever they cannot say, as one change.
  template <typename Function>
  [[nodiscard]] auto atomic(Function function)
    requires kIsJson
  {
    return update(std::move(function));
  }

 private:
  using Slot = std::shared_ptr<detail::CellSlot>;
  using Kind = detail::JsonVerb::Kind;

  static Task<std::optional<T>> find_in(Slot slot) {
    Task<detail::CellValue> reading = detail::read_cell(slot);
    const detail::CellValue value = co_await reading;
    std::optional<T> converted;
    if (value) {
      converted = detail::from_json<T>(*value, detail::key_of(*slot));
    }
    co_return converted;
  }
  static Task<T> get_or_initial(Slot slot, std::shared_ptr<const T> initial) {
    Task<std::optional<T>> finding = find_in(std::move(slot));
    std::optional<T> value = co_await finding;
    co_return value ? *std::move(value) : *initial;
  }
  HOLDFAST_COROUTINE_WRAPPER static Task<void> set_in(Slot slot, const T& value) {
    return detail::mutate_cell(std::move(slot), detail::replace_with(detail::to_json(value)));
  }

  HOLDFAST_COROUTINE_WRAPPER Task<boost::json::value> verb(detail::JsonVerb verb) {
    return detail::run_verb(slot_, initial_, std::move(verb));
  }
  static Task<std::size_t> size_of(Task<boost::json::value> task) {
    const boost::json::value size = co_await task;
    co_return size.to_number<std::size_t>();
  }
  static Task<bool> truth_of(Task<boost::json::value> task) {
    const boost::json::value truth = co_await task;
    co_return truth.as_bool();
  }
  static Task<void> nothing_of(Task<boost::json::value> task) { co_await task; }

  Slot slot_;
  std::shared_ptr<const T> initial_;
};

}  // namespace holdfast
