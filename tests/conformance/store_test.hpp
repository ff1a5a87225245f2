// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include <holdfast/executor.hpp>

#include "client.hpp"
#include "store_under_test.hpp"

namespace holdfast::conformance {

/// One fresh store of a kind, and threads to use it from.
template <typename Kind>
class StoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] Client open() { return Client(pool_, kind_.open()); }
  void reopen(Client& client) {
    client.close();
    client = open();
  }
  template <typename T>
  T run(Task<T> task) {
    return run_in_time(pool_, std::move(task));
  }

  /// How often to try what can go wrong by chance.
  static constexpr int kRounds = Kind::kSyncs ? 300 : 2'000;

  Kind kind_;
  ThreadPool pool_{2};
};

}  // namespace holdfast::conformance
