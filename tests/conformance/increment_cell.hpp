// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/state.hpp>

namespace holdfast::conformance {

/// Adds `times` to a cell, from as many tasks at once.
inline Task<void> increment_cell(const State& state, std::string name, int times) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < times; ++i) {
    auto cell = state.global().cell<int>(name);
    tasks.push_back(cell.update([](int n) { return n + 1; }).task());
  }
  Task<std::vector<int>> adding = all(std::move(tasks));
  co_await adding;
}

}  // namespace holdfast::conformance
