// SPDX-License-Identifier: Apache-2.0
// Makes stores for store_test.py and its like, and uses them as another process would.
//
//   store_maker fill URL COUNT   commits so many entries
//   store_maker cells URL COUNT  makes so many cells in the global scope
//   store_maker put URL KEY TEXT puts it there, whatever it is
//   store_maker write URL        commits until its standard input ends; a line after the first one
//   store_maker newer PATH       gives an SQLite store a format that is yet to come
//   store_maker keep PATH        takes the turn to write, says so, and keeps it in the same way
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <holdfast/all_any.hpp>
#include <holdfast/executor.hpp>
#include <holdfast/open_store.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/state.hpp>

#include "store/sidecar.hpp"
#include "store_sqlite/connection.hpp"
#include "store_sqlite/page_checksums.hpp"

namespace {

using namespace std::chrono_literals;

void say_ready() {
  std::puts("ready");
  std::fflush(stdout);
}

void wait_for_end_of_input() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

holdfast::Task<void> put(holdfast::Store& store, std::string key, std::string value) {
  holdfast::Batch batch;
  batch.put(key, value);
  const holdfast::CommitOutcome outcome = co_await store.commit(std::move(batch));
  if (outcome.committed() == nullptr) {
    throw std::runtime_error("a commit without a condition was refused");
  }
}

holdfast::Task<void> put(holdfast::Store& store, const std::string& key) {
  return put(store, key, "value of " + key);
}

void fill(const std::string& url, int count) {
  const auto store = holdfast::open_store(url);
  holdfast::ThreadPool pool(1);
  for (int i = 0; i < count; ++i) {
    holdfast::sync_wait(pool, put(*store, "key/" + std::to_string(i)));
  }
}

void make_cells(const std::string& url, int count) {
  const auto store = holdfast::open_store(url);
  const holdfast::State state(*store);
  holdfast::ThreadPool pool(1);
  std::vector<holdfast::Task<void>> changes;
  for (int i = 0; i < count; ++i) {
    changes.push_back(state.global().cell<int>(std::to_string(i)).set(i + 1));
  }
  holdfast::sync_wait(pool, holdfast::all(std::move(changes)));
}

void write(const std::string& url) {
  const auto store = holdfast::open_store(url);
  holdfast::ThreadPool pool(1);
  std::atomic<bool> ended = false;
  std::jthread watcher([&] {
    wait_for_end_of_input();
    ended = true;
  });
  for (int i = 0; !ended; ++i) {
    holdfast::sync_wait(pool, put(*store, "written/" + std::to_string(i)));
    if (i == 0) {
      say_ready();
    }
  }
}

void make_newer(const std::string& path) {
  holdfast::detail::Connection connection(path, holdfast::detail::page_checksum_vfs(""),
                                          SQLITE_OPEN_READWRITE);
  connection.run("PRAGMA user_version = 99");
  connection.run("PRAGMA wal_checkpoint(TRUNCATE)");
}

void keep_turn(const std::string& path) {
  holdfast::detail::Sidecar sidecar(path + "-hold");
  if (!sidecar.take_turn(holdfast::MonotonicTime::now() + 10s)) {
    throw std::runtime_error("the turn cannot be had");
  }
  say_ready();
  wait_for_end_of_input();
}

void run(const std::vector<std::string>& words) {
  const std::string& action = words.at(0);
  if (action == "fill") {
    fill(words.at(1), std::stoi(words.at(2)));
  } else if (action == "cells") {
    make_cells(words.at(1), std::stoi(words.at(2)));
  } else if (action == "put") {
    const auto store = holdfast::open_store(words.at(1));
    holdfast::ThreadPool pool(1);
    holdfast::sync_wait(pool, put(*store, words.at(2), words.at(3)));
  } else if (action == "write") {
    write(words.at(1));
  } else if (action == "newer") {
    make_newer(words.at(1));
  } else if (action == "keep") {
    keep_turn(words.at(1));
  } else {
    throw std::runtime_error("unknown action " + action);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "store_maker: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
