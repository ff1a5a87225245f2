// SPDX-License-Identifier: Apache-2.0
// Plays one scenario, whose name the build gives, in plain lines. Exit code 1 if a check failed.
#include <atomic>
#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "scenario.hpp"

namespace {

class PlainStage final : public examples::Stage {
 public:
  void say(std::string_view text) override { fmt::print("{}\n", text); }
  void progress(std::size_t /*done*/, std::size_t /*total*/) override {}
  void check(std::string_view what, bool passed) override {
    fmt::print("{}: {}\n", passed ? "ok" : "FAILED", what);
    failed_ = failed_ || !passed;
  }
  [[nodiscard]] std::stop_token stop() const override { return {}; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::atomic<bool> failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (const auto code = examples::play_part(argc, argv)) {
      return *code;
    }
    PlainStage stage;
    for (const auto& scenario : examples::scenarios()) {
      if (scenario.name == HOLDFAST_SCENARIO) {
        scenario.play(stage);
      }
    }
    return stage.failed() || std::fflush(stdout) != 0 ? 1 : 0;
  } catch (const std::exception& error) {
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
