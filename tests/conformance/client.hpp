// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/store.hpp>

#include "deadline.hpp"

namespace holdfast::conformance {

/// A connection as a test likes it: every call blocks, and fails when it takes too long.
class Client {
 public:
  Client(Executor& executor, std::unique_ptr<Store> store) noexcept
      : executor_(&executor), store_(std::move(store)) {}

  [[nodiscard]] Store& operator*() const noexcept { return *store_; }
  [[nodiscard]] Store* operator->() const noexcept { return store_.get(); }
  void close() noexcept { store_.reset(); }

  template <typename T>
  T run(Task<T> task) const {
    return run_in_time(*executor_, std::move(task));
  }

  [[nodiscard]] std::optional<Entry> get(std::string_view key, Read read = Read::kDurable) const {
    return run(store_->get(key, read));
  }
  [[nodiscard]] Page scan(std::string_view prefix, const ScanOptions& options = {}) const {
    return run(store_->scan(prefix, options));
  }
  CommitOutcome commit(Batch batch) const { return run(store_->commit(std::move(batch))); }
  CommitOutcome apply(Batch batch) const { return run(store_->apply(std::move(batch))); }

  /// Commits without a condition.
  Version put(std::string_view key, std::string_view value) const {
    return commit(Batch().put(key, value)).committed()->version;
  }
  Version erase(std::string_view key) const {
    return commit(Batch().erase(key)).committed()->version;
  }
  /// The value, or "(absent)".
  [[nodiscard]] std::string value(std::string_view key, Read read = Read::kDurable) const {
    auto entry = get(key, read);
    return entry ? std::move(entry->value) : "(absent)";
  }

 private:
  Executor* executor_;
  std::unique_ptr<Store> store_;
};

/// "k7". Joining with + makes g++ 12 warn of what cannot happen.
[[nodiscard]] inline std::string numbered(std::string_view name, std::integral auto number) {
  std::string text(name);
  text.append(std::to_string(number));
  return text;
}

/// For messages and comparisons: "committed", "conflict on k: v", "fenced by k: absent".
[[nodiscard]] inline std::string text_of(const CommitOutcome& outcome) {
  const auto current = [](const std::optional<Entry>& entry) {
    return entry ? entry->value : std::string("(absent)");
  };
  if (const Conflict* conflict = outcome.conflict()) {
    return "conflict on " + conflict->key + ": " + current(conflict->current);
  }
  if (const Fenced* fenced = outcome.fenced()) {
    return "fenced by " + fenced->key + ": " + current(fenced->current);
  }
  return "committed";
}

/// "a=1 b=2": what a page has.
[[nodiscard]] inline std::string text_of(const Page& page) {
  std::string text;
  for (const Entry& entry : page.entries) {
    text += (text.empty() ? "" : " ") + entry.key + "=" + entry.value;
  }
  return text + (page.more ? " ..." : "");
}

}  // namespace holdfast::conformance
