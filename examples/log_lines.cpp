// SPDX-License-Identifier: Apache-2.0
// Many tasks write lines into one file, each line in several small writes. No line may be torn by
// another, none may be lost, and nobody may push in.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <holdfast/holdfast.hpp>

#include "scenario.hpp"

namespace examples {

namespace {

using namespace std::chrono_literals;

constexpr int kWriters = 8;
constexpr int kLinesPerWriter = 50;
constexpr std::size_t kLines = std::size_t{kWriters} * kLinesPerWriter;

/// A file without a name, gone when it is closed.
class LogFile {
 public:
  LogFile() : file_(std::tmpfile()) {
    if (file_ == nullptr) {
      throw std::runtime_error("no temporary file can be made");
    }
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // Each piece is a write of its own.
  }

  void write(std::string_view piece) {
    if (std::fwrite(piece.data(), 1, piece.size(), file_.get()) != piece.size()) {
      throw std::runtime_error("the temporary file cannot be written");
    }
  }

  [[nodiscard]] std::vector<std::string> lines() {
    if (std::fseek(file_.get(), 0, SEEK_SET) != 0) {
      throw std::runtime_error("the temporary file cannot be read");
    }
    std::vector<std::string> lines(1);
    for (int byte = std::fgetc(file_.get()); byte != EOF; byte = std::fgetc(file_.get())) {
      if (byte == '\n') {
        lines.emplace_back();
      } else {
        lines.back() += static_cast<char>(byte);
      }
    }
    lines.pop_back();  // Behind the last newline.
    return lines;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

struct Log {
  LogFile file;
  holdfast::Mutex mutex;
};

std::string line_of(int writer, int number) {
  return fmt::format("writer {} line {} is whole", writer, number);
}

// [append]
holdfast::Task<void> write_in_pieces(LogFile& file, std::string line) {
  const std::size_t middle = line.size() / 2;
  file.write(line.substr(0, middle));
  co_await holdfast::this_task::sleep_for(1ms);  // A slow disk: other tasks run.
  file.write(line.substr(middle));
  file.write("\n");
}

holdfast::Task<void> append(Log& log, std::string line) {
  const holdfast::Hold hold = co_await log.mutex.lock();
  co_await write_in_pieces(log.file, std::move(line));
}
// [append]

holdfast::Task<void> append_without_lock(Log& log, std::string line) {
  co_await write_in_pieces(log.file, std::move(line));
}

using Append = holdfast::Task<void> (*)(Log&, std::string);

holdfast::Task<void> write_lines(Stage& stage, Log& log, std::atomic<std::size_t>& written,
                                 Append append_line, int writer) {
  for (int number = 0; number < kLinesPerWriter; ++number) {
    co_await append_line(log, line_of(writer, number));
    stage.progress(++written, kLines);
  }
}

/// Lets all writers write at the same time, and returns what is in the file then.
std::vector<std::string> write_all(Stage& stage, holdfast::Executor& executor, Append append_line) {
  Log log;
  std::atomic<std::size_t> written = 0;
  std::vector<holdfast::Task<void>> writers;
  writers.reserve(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back(write_lines(stage, log, written, append_line, writer));
  }
  holdfast::sync_wait(executor, holdfast::all(std::move(writers)), {}, stage.stop());
  return log.file.lines();
}

/// How many of `lines` are the next line of some writer, whole and in order.
std::size_t count_whole(const std::vector<std::string>& lines) {
  std::map<std::string, int> writer_of_next;
  std::vector<int> next(kWriters, 0);
  for (int writer = 0; writer < kWriters; ++writer) {
    writer_of_next[line_of(writer, 0)] = writer;
  }
  std::size_t whole = 0;
  for (const std::string& line : lines) {
    if (const auto found = writer_of_next.find(line); found != writer_of_next.end()) {
      const int writer = found->second;
      writer_of_next.erase(found);
      writer_of_next[line_of(writer, ++next[static_cast<std::size_t>(writer)])] = writer;
      ++whole;
    }
  }
  return whole;
}

/// Whether the writers took turns: 0, 1, 2, and so on, line by line.
bool took_turns(const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != line_of(static_cast<int>(i % kWriters), static_cast<int>(i / kWriters))) {
      return false;
    }
  }
  return lines.size() == kLines;
}

}  // namespace

void log_lines(Stage& stage) {
  stage.say(fmt::format("{} tasks write {} lines each into one file, every line in pieces",
                        kWriters, kLinesPerWriter));
  {
    holdfast::ThreadPool pool(4);
    const auto lines = write_all(stage, pool, append);
    stage.check(fmt::format("all {} lines are there, whole, each writer's in order", kLines),
                lines.size() == kLines && count_whole(lines) == kLines);
  }
  // The rest on one thread and a virtual clock, where the same happens every time.
  holdfast::VirtualClock clock;
  holdfast::ManualExecutor executor(clock);
  stage.check("the lock goes round in the order of arrival: the writers take turns",
              took_turns(write_all(stage, executor, append)));

  const auto torn = write_all(stage, executor, append_without_lock);
  stage.say(fmt::format("without the lock the first line reads: {:.50}...", torn.front()));
  stage.check("without the lock the lines are torn", count_whole(torn) < kLines);
}

}  // namespace examples
