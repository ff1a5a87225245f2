// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

namespace holdfast {

class Limit;  // <holdfast/run_lock.hpp>

/// Thrown by a step: to try again would be in vain.
class PermanentFailure final : public detail::ErrorOf<ErrorCode::kPermanentFailure> {
  using ErrorOf::ErrorOf;
};

/// How often a step that fails is tried, and when. Trivially destructible on purpose, as
/// `WaitOptions`.
struct Retry {
  /// All in all; 1: never again. Zero: for as long as its time-outs allow.
  std::uint32_t attempts_max = 0;
  /// Before the second attempt; each pause is `factor` times the one before, up to `pause_max`.
  Duration pause_first = std::chrono::seconds(1);
  double factor = 2.0;
  Duration pause_max = std::chrono::minutes(1);
  /// False: do not try again after this. `PermanentFailure` is never tried again. Null: everything
  /// else is.
  bool (*retry_if)(const std::exception& failure) = nullptr;

  [[nodiscard]] static constexpr Retry never() noexcept {
    Retry retry;
    retry.attempts_max = 1;
    return retry;
  }
};

/// Trivially destructible on purpose, as `WaitOptions`. Views are copied at the call. A time of
/// zero is none.
struct StepOptions {
  Retry retry{};
  /// How long one attempt may take. When it is over, the attempt is asked to stop and counts as
  /// failed, whatever it does then. What it waits for `limit` before does not count.
  Duration attempt_timeout{};
  /// How long all attempts, the pauses between them, and waits for `limit` may take.
  Duration timeout{};
  /// How long an attempt may go without a `StepContext::heartbeat`.
  Duration heartbeat_timeout{};
  /// It changes nothing outside, so it may begin before it is known that it will, and nothing is
  /// written to the disk for its sake alone.
  bool side_effect_free = false;
  /// Instead of the one that is made of the run's id and the step's number.
  std::string_view idempotency_key{};
  /// Each attempt takes a permit of this, and gives it back when it ends: so many at once, and so
  /// many in a period. It waits for it as `Context::acquire` does, through crashes and at the cost
  /// of a row; between two attempts it holds nothing. Copied at the call. Null: none.
  ///
  /// ```
  /// auto call = ctx.run("call", [&] { return vendor.ask(order); }, {.limit = &kVendor});
  /// ```
  const Limit* limit = nullptr;
  std::uint64_t limit_weight = 1;
  int limit_priority = 0;  ///< See `kGateOvertakesPerStep`.
};

/// What happens to a child when its parent ends first.
enum class ParentClose : std::uint8_t { kTerminate, kCancel, kAbandon };

/// As `StepOptions`.
struct ChildOptions {
  /// As `StartOptions::id`: if a run of it goes on, whoever awaits the child gets `RunExists`, and
  /// there is no child. Empty: one is made.
  std::string_view id{};
  /// Which processes drive it. Empty: those that drive the parent.
  std::string_view queue{};
  ParentClose parent_close = ParentClose::kTerminate;
  Duration timeout{};  ///< Of the child, from its start on.
  int priority = 0;    ///< As `StartOptions::priority`.
  /// A child that nobody waits for any more is asked to stop. True: and its end is waited for, as
  /// that of a step is.
  bool must_end = false;
  /// It is at the top of a tree of its own, whose cells it does not share with its parent.
  bool is_root = false;
  /// Whoever starts a run with one of these as `StartOptions::idempotency_key` gets this one.
  std::span<const std::string> idempotency_keys{};
};

/// How many of many are under way at once. As `StepOptions`.
struct FanOut {
  std::size_t at_most = 1;  ///< At least 1.
};

namespace detail {

/// Throw `InvalidArgument`, naming the field and its value.
void check_options(std::string_view step, const StepOptions& options);
void check_transaction_options(std::string_view transaction, const StepOptions& options);
void check_options(std::string_view child, const ChildOptions& options);
[[nodiscard]] std::size_t checked_at_most(const FanOut& options);

/// The options of a step, kept.
struct StepTerms {
  StepOptions options{};
  std::string idempotency_key;
};
struct ChildTerms {
  std::string id;
  std::string queue;
  ParentClose parent_close = ParentClose::kTerminate;
  Duration timeout{};
  int priority = 0;
  bool is_root = false;
  std::vector<std::string> start_keys{};
  /// A lock of the parent, by its operation: it passes to the child in the commit that begins it.
  std::optional<std::uint64_t> takes_lock{};
};

}  // namespace detail

}  // namespace holdfast
