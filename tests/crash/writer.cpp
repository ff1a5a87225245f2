// SPDX-License-Identifier: Apache-2.0
//
// crash_writer PATH WRITER FIRST COUNT [DIES_BEFORE [applied]]
//
// Commits the batches FIRST, FIRST + 1, ... of a writer to an SQLite store, COUNT of them, and
// tells of each that is durable, or as soon as it is applied. With DIES_BEFORE it kills itself
// before that I/O operation.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/executor.hpp>
#include <holdfast/spawn.hpp>
#include <holdfast/sqlite_store.hpp>

#include "store/sidecar.hpp"
#include "store_sqlite/page_checksums.hpp"
#include "store_sqlite/sqlite_store_parts.hpp"
#include "tests/crash/mortal_vfs.hpp"
#include "tests/crash/writer.hpp"

namespace holdfast::testing {
namespace {

struct Job {
  std::uint64_t writer;
  std::atomic<std::uint64_t> next;
  std::uint64_t end;
  bool tells_of_applied;
};

void tell(std::uint64_t number, const CommitOutcome& outcome) {
  const Ack ack{number, outcome.committed() == nullptr ? 0 : outcome.committed()->version};
  if (::write(STDOUT_FILENO, &ack, sizeof ack) != sizeof ack) {
    std::abort();
  }
}

Task<void> write_batches(Store& store, Job& job) {
  for (std::uint64_t number = job.next++; number < job.end; number = job.next++) {
    const std::string marker = writer_marker(job.writer, number);
    Batch batch = writer_batch(job.writer, number);
    batch.put(marker, marker);
    auto written =
        job.tells_of_applied ? store.apply(std::move(batch)) : store.commit(std::move(batch));
    const CommitOutcome outcome = co_await std::move(written);
    tell(number, outcome);
  }
}

std::unique_ptr<Store> open_mortal(const std::string& path, const MortalVfs& vfs) {
  return detail::open_sqlite_store({path, detail::page_checksum_vfs(vfs.name())}, {},
                                   std::make_unique<detail::Sidecar>(path + "-hold"));
}

int run(const std::vector<std::string>& arguments) {
  // Whoever started this reads what it tells; without that there is nothing to do.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string& path = arguments.at(1);
  const std::uint64_t first = std::stoull(arguments.at(3));
  const bool tells_of_applied = arguments.size() > 6;
  Job job{std::stoull(arguments.at(2)), first, first + std::stoull(arguments.at(4)),
          tells_of_applied};
  std::unique_ptr<MortalVfs> vfs;
  if (arguments.size() > 5) {
    vfs = std::make_unique<MortalVfs>(std::stoull(arguments.at(5)));
  }
  const auto store = vfs == nullptr ? open_sqlite_store(path) : open_mortal(path, *vfs);
  ThreadPool pool(2);
  std::vector<Spawned<void>> tasks;
  for (std::uint64_t i = 0; i < kWriterTasks; ++i) {
    tasks.push_back(spawn(pool, write_batches(*store, job)));
  }
  std::for_each(tasks.begin(), tasks.end(), [](auto& task) { task.get(); });
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) {
  try {
    return holdfast::testing::run({argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "crash_writer: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
