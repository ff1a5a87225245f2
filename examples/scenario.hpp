// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>

namespace examples {

/// Where a scenario plays, and who watches. All of it is thread-safe.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  /// Tells the audience what is going on: one line.
  virtual void say(std::string_view text) = 0;
  /// So much of the work is done.
  virtual void progress(std::size_t done, std::size_t total) = 0;
  /// A promise that was put to the test.
  virtual void check(std::string_view what, bool passed) = 0;
  /// Asks the scenario to end early; it then throws `holdfast::Cancelled`.
  [[nodiscard]] virtual std::stop_token stop() const = 0;
};

struct Scenario {
  std::string_view name;
  std::string_view summary;
  void (*play)(Stage&);
};

void checkout(Stage& stage);
void api_client(Stage& stage);
void log_lines(Stage& stage);
void transfer(Stage& stage);

/// All of them, in the order in which the demo plays them.
[[nodiscard]] std::span<const Scenario> scenarios() noexcept;

/// A scenario with several processes starts this program again, with words that say what it is to
/// be there. A program that plays scenarios asks here first: if the words are such ones, that part
/// is played, and this is the exit code.
[[nodiscard]] std::optional<int> play_part(int argc, const char* const* argv);

}  // namespace examples
