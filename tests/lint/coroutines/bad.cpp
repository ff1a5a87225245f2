// SPDX-License-Identifier: Apache-2.0
#include "task.hpp"

Task two_in_a_statement() {
  const int sum = co_await number() + co_await number();
  static_cast<void>(sum);
}

Task in_an_if() {
  if (co_await ask()) {
    co_return;
  }
}

Task in_an_if_with_a_variable() {
  if (const bool yes = co_await ask()) {
    co_return;
  }
}

Task in_a_while() {
  while (!co_await ask()) {
  }
}

Task in_a_do() {
  do {
  } while (!co_await ask());
}

Task in_a_for() {
  for (int i = 0; i < co_await number(); ++i) {
  }
}

Task in_a_switch() {
  switch (co_await number()) {
    default:
      break;
  }
}

Task in_a_conditional_operator(bool first) {
  const int value = first ? co_await number() : 0;
  static_cast<void>(value);
}

Task a_lambda_that_owns(std::string text) {
  co_await call([text] { return text.size(); });
}

Task a_lambda_that_owns_by_move(std::string text) {
  const int value = co_await call([own = std::move(text)] { return own.size(); });
  static_cast<void>(value);
}

struct Options {
  std::string name;
  int size = 0;
};
Awaitable<int> open(Options) { return {}; }
Awaitable<int> open_by_reference(const Options&) { return {}; }

Task a_braced_aggregate() { co_await open({"name", 1}); }

Task a_designated_aggregate() { co_await open_by_reference({.name = "name"}); }

Task a_named_aggregate() { co_await open(Options{.name = "name"}); }

template <typename T>
Task in_a_template(T operation) {
  if (co_await operation) {
    co_return;
  }
}

Task in_a_lambda() {
  auto inner = []() -> Task {
    if (co_await ask()) {
      co_return;
    }
  };
  inner();
  co_return;
}
