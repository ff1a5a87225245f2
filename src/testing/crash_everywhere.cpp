// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <exception>
#include <optional>
#include <string>

#include <holdfast/testing.hpp>

namespace holdfast::testing {

namespace {

struct CrashPoint {
  std::uint64_t commit = 0;
  CrashOutcome outcome = CrashOutcome::kLost;
};

std::string place_text(const std::optional<CrashPoint>& point) {
  if (!point) {
    return "without any crash";
  }
  std::string text = "with a crash at commit ";
  text.append(std::to_string(point->commit));
  return text.append(point->outcome == CrashOutcome::kLost ? ", which was lost"
                                                           : ", which was made and not answered");
}

std::string how_to_repeat(const std::optional<CrashPoint>& point, const TestOptions& options) {
  std::string text = "To see it alone: TestEngine world(workflows, {.seed = ";
  text.append(std::to_string(options.seed)).append(options.shuffle ? ", .shuffle = true" : "");
  text.append("});");
  if (point) {
    text.append(" world.crash_at_commit(").append(std::to_string(point->commit));
    text.append(point->outcome == CrashOutcome::kLost ? ", CrashOutcome::kLost);"
                                                      : ", CrashOutcome::kUnanswered);");
  }
  return text.append(" scenario(world);");
}

/// How often the process has died. Throws `CrashFound`.
std::uint64_t play(const std::vector<AnyWorkflow>& workflows, const TestOptions& options,
                   const Scenario& scenario, const CrashOptions& crash_options,
                   const std::optional<CrashPoint>& point) {
  TestEngine world(workflows, options);
  if (point) {
    world.crash_at_commit(point->commit, point->outcome);
  }
  std::optional<std::string> failure;
  try {
    scenario(world);
    if (crash_options.has_failed != nullptr && crash_options.has_failed()) {
      failure = "a check has failed";
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (failure) {
    throw CrashFound("the scenario goes wrong " + place_text(point) + ": " + *failure + "\n" +
                     how_to_repeat(point, options) + "\n" + world.trace());
  }
  return world.crashes();
}

}  // namespace

CrashReport crash_everywhere(const std::vector<AnyWorkflow>& workflows, const TestOptions& options,
                             const Scenario& scenario, const CrashOptions& crash_options) {
  const std::uint64_t of_its_own = play(workflows, options, scenario, crash_options, std::nullopt);
  CrashReport report;
  for (std::uint64_t commit = 1;; ++commit) {
    for (const CrashOutcome outcome : std::array{CrashOutcome::kLost, CrashOutcome::kUnanswered}) {
      const std::uint64_t crashes =
          play(workflows, options, scenario, crash_options, CrashPoint{commit, outcome});
      if (crashes == of_its_own) {
        return report;  // It has no more commits than that.
      }
      ++report.crashes;
    }
    report.commits = commit;
  }
}

CrashReport crash_everywhere(const std::vector<AnyWorkflow>& workflows, const Scenario& scenario,
                             const CrashOptions& crash_options) {
  return crash_everywhere(workflows, TestOptions{}, scenario, crash_options);
}

}  // namespace holdfast::testing
