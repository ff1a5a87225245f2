// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "../coroutines/task.hpp"

class bad_type {
 private:
  int member = 0;
};

enum class Colour { red };

constexpr int limit = 1;

int BadFunction();

#define MAKE_IT 1

Task suspends_with_a_lock(std::mutex& mutex) {
  std::lock_guard lock(mutex);
  co_await number();
}

Task captures_in_a_coroutine(int value) {
  auto inner = [value]() -> Task {
    co_await number();
    static_cast<void>(value);
  };
  inner();
  co_return;
}
