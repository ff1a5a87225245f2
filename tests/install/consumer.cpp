// SPDX-License-Identifier: Apache-2.0
// A program outside the tree, built against the installed package.
#include <holdfast/executor.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/spawn.hpp>

namespace {

holdfast::Task<int> count(holdfast::Mutex& mutex, int& counter) {
  const holdfast::Hold hold = co_await mutex.lock();
  co_return ++counter;
}

}  // namespace

int main() {
  holdfast::ThreadPool pool(2);
  holdfast::Mutex mutex;
  int counter = 0;
  return holdfast::sync_wait(pool, count(mutex, counter)) == 1 ? 0 : 1;
}
