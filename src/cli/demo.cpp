// SPDX-License-Identifier: Apache-2.0
#include "demo.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <holdfast/error.hpp>

namespace holdfast::cli {

namespace {

using namespace std::chrono_literals;

struct Check {
  std::string_view scenario;
  std::string what;
  bool passed;
};

std::size_t width_of_names(std::span<const examples::Scenario> scenarios) {
  std::size_t width = 0;
  for (const auto& scenario : scenarios) {
    width = std::max(width, scenario.name.size());
  }
  return width;
}

/// The stage of one scenario.
class TerminalStage final : public examples::Stage {
 public:
  TerminalStage(Terminal& terminal, std::string_view scenario, std::vector<Check>& checks,
                std::stop_token stop)
      : terminal_(terminal), scenario_(scenario), checks_(checks), stop_(std::move(stop)) {}
  TerminalStage(const TerminalStage&) = delete;
  TerminalStage& operator=(const TerminalStage&) = delete;
  ~TerminalStage() override { terminal_.status({}); }

  void say(std::string_view text) override { terminal_.line(fmt::format("  {}", text)); }

  void progress(std::size_t done, std::size_t total) override {
    // Whoever comes while another draws, or too soon after, does not wait: the next will draw.
    const std::unique_lock lock(drawing_, std::try_to_lock);
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_.traits().live || !lock || now < draw_next_) {
      return;
    }
    draw_next_ = now + 33ms;
    draw(done, total);
  }

  void check(std::string_view what, bool passed) override {
    const std::scoped_lock lock(checking_);
    checks_.push_back({scenario_, std::string(what), passed});
  }

  [[nodiscard]] std::stop_token stop() const override { return stop_; }

 private:
  void draw(std::size_t done, std::size_t total) {
    constexpr std::size_t kBarMax = 40;
    const std::string count = fmt::format(" {}/{}", done, total);
    const std::size_t others = count.size() + 3;  // The margins.
    const std::size_t columns = terminal_.columns();
    if (columns < others) {
      return;
    }
    const std::size_t size = std::min(kBarMax, columns - others);
    const std::size_t full = total == 0 ? 0 : std::min(size, size * done / total);
    const bool utf8 = terminal_.traits().utf8;
    std::string bar;
    for (std::size_t i = 0; i < size; ++i) {
      bar += i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : ".");
    }
    terminal_.status(fmt::format("  {}{}", terminal_.paint(Colour::kGreen, bar), count));
  }

  Terminal& terminal_;
  std::string_view scenario_;
  std::vector<Check>& checks_;
  std::stop_token stop_;
  std::mutex checking_;
  std::mutex drawing_;
  std::chrono::steady_clock::time_point draw_next_{};
};

/// False if the scenario ended early because it was asked to.
bool play(Terminal& terminal, const examples::Scenario& scenario, std::vector<Check>& checks,
          const std::stop_token& stop) {
  terminal.line(
      fmt::format("{}: {}", terminal.paint(Colour::kBold, scenario.name), scenario.summary));
  std::string failure;
  {
    TerminalStage stage(terminal, scenario.name, checks, stop);
    try {
      scenario.play(stage);
      return true;
    } catch (const Cancelled& error) {
      if (stop.stop_requested()) {
        return false;
      }
      failure = error.what();
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "an exception of an unknown type";
    }
  }
  checks.push_back({scenario.name, "it did not come to its end: " + failure, false});
  terminal.line(terminal.paint(Colour::kRed, "  failed: ") + failure);
  return true;
}

/// How many failed.
std::size_t print_summary(Terminal& terminal, const std::vector<Check>& checks,
                          std::size_t name_width) {
  const bool utf8 = terminal.traits().utf8;
  const std::string ok = terminal.paint(Colour::kGreen, utf8 ? "✓" : "ok    ");
  const std::string failed = terminal.paint(Colour::kRed, utf8 ? "✗" : "FAILED");
  std::size_t failed_count = 0;
  terminal.line(fmt::format("\n{}", terminal.paint(Colour::kBold, "What was checked")));
  for (const Check& check : checks) {
    terminal.line(fmt::format("  {} {:<{}}  {}", check.passed ? ok : failed, check.scenario,
                              name_width, check.what));
    failed_count += check.passed ? 0 : 1;
  }
  const std::string count = fmt::format("{} check{}", checks.size(), checks.size() == 1 ? "" : "s");
  terminal.line(failed_count == 0 ? terminal.paint(Colour::kGreen, count + ", all passed")
                                  : terminal.paint(Colour::kRed, fmt::format("{}, {} failed", count,
                                                                             failed_count)));
  return failed_count;
}

}  // namespace

std::vector<examples::Scenario> chosen_scenarios(const std::vector<std::string>& only) {
  const auto all = examples::scenarios();
  if (only.empty()) {
    return {all.begin(), all.end()};
  }
  std::vector<examples::Scenario> chosen;
  for (const std::string& name : only) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
                 [&](const auto& scenario) { return scenario.name == name; });
  }
  return chosen;
}

void list_scenarios(Terminal& terminal) {
  const auto all = examples::scenarios();
  for (const auto& scenario : all) {
    terminal.line(fmt::format("{:<{}}  {}", scenario.name, width_of_names(all), scenario.summary));
  }
}

bool play_demo(Terminal& terminal, std::span<const examples::Scenario> scenarios,
               const std::stop_token& stop) {
  std::vector<Check> checks;
  std::size_t played = 0;
  while (played < scenarios.size() && play(terminal, scenarios[played], checks, stop)) {
    ++played;
  }
  const bool passed = print_summary(terminal, checks, width_of_names(scenarios)) == 0;
  if (played < scenarios.size()) {
    terminal.line(fmt::format("interrupted: {} of {} scenarios played to their end", played,
                              scenarios.size()));
  }
  return passed;
}

}  // namespace holdfast::cli
