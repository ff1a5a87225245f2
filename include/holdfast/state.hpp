// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/cell.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/store.hpp>

namespace holdfast {

namespace detail {
class StateCore;
[[nodiscard]] std::shared_ptr<CellSlot> slot_at(const std::shared_ptr<StateCore>& core,
                                                std::string key);
/// `key` if a cell can have it; otherwise `InvalidArgument`.
[[nodiscard]] std::string checked_cell_key(std::string_view key);
}  // namespace detail

/// How long the id of a scope and the name of a cell may be.
inline constexpr std::size_t kCellNameBytesMax = 255;

struct StateOptions {
  /// In memory: how long a change may take, its wait in line included. Nothing: as long as it
  /// takes.
  std::optional<Duration> mutation_timeout = std::chrono::seconds(30);
  /// In a store: how often to try before other processes were quicker too often. At least 1.
  std::uint32_t attempts_max = 32;
  /// In a store: the longest pause before the second retry, and before any. A pause is anywhere
  /// between zero and its longest, which doubles each time.
  Duration back_off_min = std::chrono::milliseconds(1);
  Duration back_off_max = std::chrono::milliseconds(250);
  /// Of the pauses; a random one by default.
  std::optional<std::uint64_t> seed{};
};

/// The cells of one user, session, or the like.
class Scope {
 public:
  Scope(std::shared_ptr<detail::StateCore> core, std::string prefix) noexcept
      : core_(std::move(core)), prefix_(std::move(prefix)) {}

  /// The cell with this name; `initial` is its value before the first write.
  template <CellType T>
  [[nodiscard]] Cell<T> cell(std::string_view name, T initial = T{}) const {
    return Cell<T>(detail::slot_at(core_, key_of(name)), std::move(initial));
  }
  /// The key of that cell in the store.
  [[nodiscard]] std::string key_of(std::string_view name) const;
  /// What the keys of all its cells begin with, and no others.
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }

 private:
  std::shared_ptr<detail::StateCore> core_;
  std::string prefix_;
};

/// The cells of a store, or of this process alone.
///
/// ```
/// State state(*store);
/// auto profile = state.user("42").cell<Profile>("profile");
/// co_await profile.update([](Profile& it) { ++it.logins; });
/// ```
///
/// Make one for a store and share it: its handles of one cell stand in one line, so that tasks of
/// one process never lose a race against each other. The names in a scope and the ids of scopes are
/// any bytes but none, and at most `kCellNameBytesMax` of them; otherwise `InvalidArgument`.
/// Thread-safe. Cells may outlive it.
class State {
 public:
  /// In memory: cells keep what is written until they are erased or the state goes.
  explicit State(const StateOptions& options = {});
  /// In `store`, which must be atomic and outlive the tasks that use it.
  explicit State(Store& store, const StateOptions& options = {});
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  [[nodiscard]] Scope request(std::string_view id) const { return scope("request", id); }
  [[nodiscard]] Scope session(std::string_view id) const { return scope("session", id); }
  [[nodiscard]] Scope user(std::string_view id) const { return scope("user", id); }
  [[nodiscard]] Scope org(std::string_view id) const { return scope("org", id); }
  [[nodiscard]] Scope global() const;
  /// What a run and its children share: see `Context::execution`. `RunInfo::root_uid` says the uid.
  [[nodiscard]] Scope execution(std::string_view root_uid) const {
    return scope("execution", root_uid);
  }
  /// What all runs of a workflow share: see `Context::workflow_scope`.
  [[nodiscard]] Scope workflow(std::string_view type) const { return scope("workflow", type); }

  /// The cell with this key, as `Cell::key` gives it.
  template <CellType T>
  [[nodiscard]] Cell<T> at(std::string_view key, T initial = T{}) const {
    return Cell<T>(detail::slot_at(core_, detail::checked_cell_key(key)), std::move(initial));
  }

  /// Cells that are known at the moment: those with handles, and in memory those with values.
  [[nodiscard]] std::size_t size() const;

 private:
  [[nodiscard]] Scope scope(std::string_view kind, std::string_view id) const;

  std::shared_ptr<detail::StateCore> core_;
};

/// A cell by its full key, without a `State`: for tools that look after the cells of a program from
/// outside.
///
/// ```
/// AtomicState<boost::json::value> cart(*store, "cell/user/42/cart");
/// co_await cart.delete_record("/items", "stuck");
/// ```
///
/// It stands in a line of its own, so against a `State` of the same process it is like another
/// process.
template <CellType T>
class AtomicState : public Cell<T> {
 public:
  AtomicState(Store& store, std::string_view key, T initial = T{}, const StateOptions& options = {})
      : Cell<T>(State(store, options).at<T>(key, std::move(initial))) {}
};

}  // namespace holdfast
