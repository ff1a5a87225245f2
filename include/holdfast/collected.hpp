// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/clock.hpp>
#include <holdfast/workflow_definition.hpp>

namespace holdfast {

/// Trivially destructible on purpose, as `WaitOptions`. All times are above zero.
struct Debounce {
  Duration quiet{};     ///< After the last start of a key, this long.
  Duration wait_max{};  ///< After the first one, at most this long.
};

/// As `Debounce`.
struct Batching {
  std::uint64_t size_max = 100;  ///< At least 1.
  Duration wait_max{};           ///< After the first one, at most this long.
};

/// How one of the starts is made. As `Debounce`; views are copied at the call.
struct CollectOptions {
  std::string_view queue{};  ///< As `StartOptions::queue`.
  /// As `StartOptions::idempotency_key`: the same start, made twice, is collected once.
  std::string_view idempotency_key{};
};

namespace detail {

/// `CollectOptions`, kept.
struct CollectTerms {
  std::string queue;
  std::string start_key;
};

/// How starts are collected, with types taken off.
struct CollectorTerms {
  std::string target;     ///< The type of what is started in the end.
  bool is_batch = false;  ///< Else the last input alone counts.
  Duration quiet{};       ///< Zero: it does not matter when the last one came.
  Duration wait_max{};
  std::uint64_t size_max = 0;  ///< Of a batch.
};
/// Throw `InvalidArgument`, naming the field and its value.
[[nodiscard]] CollectorTerms collector_terms(const std::string& target, const Debounce& terms);
[[nodiscard]] CollectorTerms collector_terms(const std::string& target, const Batching& terms);

}  // namespace detail

/// A workflow whose starts are collected, by key, before one run does what they ask for:
/// `debounced` and `batched` make it. `In` is what a start is given, `All` what the run gets.
///
/// What was given is durable when `Engine::start` returns; the handle leads to the run that does
/// it.
template <Payload In, Payload All, Payload Out>
class Collected {
 public:
  using KeyOf = std::function<std::string(const In& input)>;
  Collected(Workflow<All, Out> workflow, detail::CollectorTerms terms, KeyOf key_of)
      : workflow_(std::move(workflow)), terms_(std::move(terms)), key_of_(std::move(key_of)) {}

  [[nodiscard]] const Workflow<All, Out>& workflow() const noexcept { return workflow_; }
  [[nodiscard]] const detail::CollectorTerms& terms() const noexcept { return terms_; }
  [[nodiscard]] std::string key_of(const In& input) const { return key_of_(input); }

 private:
  Workflow<All, Out> workflow_;
  detail::CollectorTerms terms_;
  KeyOf key_of_;
};

/// The last of many starts, when no more come:
///
/// ```
/// const auto reindex = debounced(workflow("reindex", reindex_page), {.quiet = 5s, .wait_max =
/// 1min},
///                                [](const Page& page) { return page.url; });
/// ```
template <Payload In, Payload Out, typename Key>
  requires(!std::is_void_v<In> && std::invocable<const Key&, const In&>)
[[nodiscard]] Collected<In, In, Out> debounced(Workflow<In, Out> workflow, const Debounce& terms,
                                               Key key) {
  detail::CollectorTerms kept = detail::collector_terms(workflow.name(), terms);
  return {std::move(workflow), std::move(kept), std::move(key)};
}

/// Many starts at once, by a workflow that takes a list of what each was given:
///
/// ```
/// const auto ship = batched(workflow("ship", ship_all), {.size_max = 50, .wait_max = 5s},
///                           [](const Parcel& parcel) { return parcel.carrier; });
/// ```
template <Payload In, Payload Out, typename Key>
  requires(std::invocable<const Key&, const In&>)
[[nodiscard]] Collected<In, std::vector<In>, Out> batched(Workflow<std::vector<In>, Out> workflow,
                                                          const Batching& terms, Key key) {
  detail::CollectorTerms kept = detail::collector_terms(workflow.name(), terms);
  return {std::move(workflow), std::move(kept), std::move(key)};
}

}  // namespace holdfast
