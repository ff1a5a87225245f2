// SPDX-License-Identifier: Apache-2.0
// A program outside the tree that keeps state, in JSON that two of the libraries bring.
#include <holdfast/executor.hpp>
#include <holdfast/file_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>

int main(int argc, char** argv) {
  if (argc != 2) {
    return 2;
  }
  const auto store = holdfast::open_file_store(argv[1]);
  const holdfast::State state(*store);
  holdfast::ThreadPool pool(2);
  auto counter = state.global().cell<int>("counter");
  return holdfast::sync_wait(pool, counter.update([](int n) { return n + 1; }).task()) == 1 ? 0 : 1;
}
