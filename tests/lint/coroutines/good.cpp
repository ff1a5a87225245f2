// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "task.hpp"

Task one_per_statement(std::string text) {
  const int first = co_await number();
  const int second = co_await number();
  if (first < second) {
    co_await ask();
  } else {
    co_await number();
  }
  for (int i = 0; i < first; ++i) {
    co_await ask();
    const bool go_on = co_await ask();
    if (!go_on) {
      break;
    }
  }
  try {
    co_await ask();
    co_await ask();
  } catch (...) {
  }
  co_await call([] { return 1; });
  co_await call([&text] { return text.size(); });
  co_await call([&] { return text.size(); });
  co_await call([first] { return first; });
  const auto operation = call([text] { return text.size(); });
  auto named = operation;
  co_await named;
}

struct Limits {
  int size = 0;
  bool fair = true;
};
Awaitable<int> open(Limits) { return {}; }

Task a_trivial_aggregate() {
  co_await open({.size = 1});
  co_await open(Limits{});
}

template <typename T>
Task in_a_template(T operation) {
  const bool yes = co_await operation;
  if (yes) {
    co_await operation;
  }
}

struct Options {
  std::string name;
};

Task owners_inside_a_lambda_that_has_none() {
  auto inner = []() -> Task {
    co_await call([] { return Options{.name = "name"}; });
    co_await call([] {
      const std::string text;
      return [text] { return text; };
    });
  };
  inner();
  co_return;
}

bool run(Task) { return true; }

Task lambdas_count_by_themselves(bool first) {
  std::vector<Task> tasks{[]() -> Task {
                            co_await ask();
                            co_await ask();
                          }(),
                          []() -> Task { co_await ask(); }()};
  if (run([]() -> Task { co_await ask(); }())) {
    co_return;
  }
  const bool ran = first ? run([]() -> Task { co_await ask(); }()) : false;
  static_cast<void>(ran);
}

template Task in_a_template(Awaitable<bool>);
