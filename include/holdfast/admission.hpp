// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/gate.hpp>

namespace holdfast {

/// What becomes of a start when the limit is full.
enum class WhenFull : std::uint8_t {
  kQueue,   ///< The run is durable at once, and begins when its turn comes.
  kReject,  ///< `ConcurrencyLimitExceeded`.
  kSkip,    ///< Nothing is started: `RunHandle::was_skipped`.
  /// The oldest runs of the key are asked to stop, and it begins when one has. Whoever ignores that
  /// keeps its slot, unless there is a `replace_grace`.
  kReplace,
  kJoin,  ///< Nothing is started: the handle is that of a run that goes on.
};

/// For how long a run holds its slot.
enum class HoldSlot : std::uint8_t {
  kForRun,  ///< From its start to its end.
  /// While it does something: with no step under way it lets go, and asks again, behind the others,
  /// before its code goes on.
  kWhileBusy,
  /// Each attempt of each of its steps holds one, and the run itself none: it begins at once, and
  /// never waits but for its steps. With `WhenFull::kQueue` alone, and without `rate`, `wait_max`
  /// and `queue_max`. Transactions need none.
  kForStep,
};

struct StartRate {
  std::uint64_t count = 1;  ///< At least 1.
  Duration period{};        ///< Above zero.
};

/// How many runs of a workflow, or of their steps, may go on at once. Trivially destructible on
/// purpose, as `WaitOptions`.
///
/// ```
/// const auto import = workflow("import", import_customer)
///                         .concurrency({.max = 2, .max_total = 10},
///                                      [](const Import& import) { return import.customer; });
/// ```
struct Concurrency {
  /// Of one key; without a function for keys, of all. Nothing: any number.
  std::optional<std::uint64_t> max{};
  std::optional<std::uint64_t> max_total{};  ///< Of all keys together.
  std::optional<StartRate> rate{};           ///< Starts of one key.
  WhenFull when_full = WhenFull::kQueue;
  HoldSlot hold = HoldSlot::kForRun;
  /// How long a run may be queued; then it has timed out. Nothing: for as long as it takes.
  std::optional<Duration> wait_max{};
  /// How many may be queued in one line; one too many is rejected. At least 1.
  std::uint64_t queue_max = std::numeric_limits<std::uint64_t>::max();
  /// After that time, those that are replaced are not asked any more: they are terminated.
  std::optional<Duration> replace_grace{};
};

/// Too many runs of a workflow go on, and its policy is to reject, or too many are queued. Nothing
/// was started.
class ConcurrencyLimitExceeded final : public Error {
 public:
  /// `why` goes on from "workflow 'import', key 'acme': ".
  ConcurrencyLimitExceeded(std::string type, std::string key, std::uint64_t limit,
                           const std::string& why);

  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }  ///< Empty: it has none.
  /// Of the key, or, if that is not full, of all together.
  [[nodiscard]] std::uint64_t limit() const noexcept { return limit_; }

 private:
  std::string type_;
  std::string key_;
  std::uint64_t limit_;
};

namespace detail {

/// A gate that a run passes before it begins.
struct AdmissionGate {
  std::string name;
  GateDefinition definition;
  bool is_held = true;  ///< Else it is only passed: it limits the rate, and nothing else.
  bool is_of_key = true;
};

/// What a definition says of its starts, with the type of the input taken off.
class Admission {
 public:
  using KeyOf = std::function<std::string(const boost::json::value& input)>;
  /// Without `key_of` all have the same key. Throws `InvalidArgument`.
  Admission(std::string type, const Concurrency& terms, KeyOf key_of);

  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  [[nodiscard]] const Concurrency& terms() const noexcept { return terms_; }
  /// Throws `InvalidArgument`, also for what the function throws, or `BadPayload`.
  [[nodiscard]] std::string key_of(const boost::json::value& input) const;
  /// In the order in which they are passed: that of the key, then that of all. Throws
  /// `InvalidArgument` if the key makes no name.
  [[nodiscard]] std::vector<AdmissionGate> gates(const std::string& key) const;

 private:
  [[nodiscard]] GateDefinition definition_of(std::optional<std::uint64_t> max,
                                             const std::optional<StartRate>& rate) const;

  std::string type_;
  Concurrency terms_;
  KeyOf key_of_;
};

}  // namespace detail

}  // namespace holdfast
