// SPDX-License-Identifier: Apache-2.0
#include "collector.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <holdfast/workflow.hpp>

#include "engine_core.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

/// What may be added to the id of a batch.
constexpr std::size_t kBatchNumberBytes = 21;

void check_collector_time(const std::string& target, const char* what, Duration time) {
  if (time <= Duration::zero()) {
    throw InvalidArgument(std::string(what) + " of workflow '" + target + "' is " +
                          std::to_string(time.count()) + " ns; give a time above zero");
  }
}

/// In the commit that ends the collector.
void start_target(Context& ctx, const CollectorInput& input, const boost::json::value& value,
                  const std::string& id) {
  const ChildOptions on_its_own{.id = id, .parent_close = ParentClose::kAbandon};
  static_cast<void>(ctx.child<boost::json::value>(input.target, value, on_its_own));
}

Task<void> debounce_starts(Context& ctx, CollectorInput input) {
  boost::json::value last = input.first;
  std::uint64_t came = 0;
  ctx.on_update<boost::json::value, std::string>(kCollectedInput, [&](boost::json::value next) {
    last = std::move(next);
    ++came;
    return input.run_id;
  });
  const StoreTime end = ctx.now() + Duration(input.wait_max_ns);
  bool goes_on = true;
  while (goes_on) {
    const std::uint64_t known = came;
    const Duration time = std::min(Duration(input.quiet_ns), end - ctx.now());
    const bool is_more = co_await ctx.wait_until([&] { return came != known; }, time);
    goes_on = is_more && ctx.now() < end;
  }
  start_target(ctx, input, last, input.run_id);
}

/// More may come with the one that fills the batch: they are in the next one.
std::string id_of_batch(const CollectorInput& input, std::size_t batch) {
  return batch == 0 ? input.run_id : input.run_id + "-" + std::to_string(batch + 1);
}

Task<void> batch_starts(Context& ctx, CollectorInput input) {
  std::vector<boost::json::array> batches{{input.first}};
  ctx.on_update<boost::json::value, std::string>(kCollectedInput, [&](boost::json::value next) {
    if (batches.back().size() == input.size_max) {
      batches.emplace_back();
    }
    batches.back().push_back(std::move(next));
    return id_of_batch(input, batches.size() - 1);
  });
  [[maybe_unused]] const bool is_full = co_await ctx.wait_until(
      [&] { return batches.front().size() >= input.size_max; }, Duration(input.wait_max_ns));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    start_target(ctx, input, std::move(batches[i]), id_of_batch(input, i));
  }
}

std::string collector_id(const CollectorTerms& terms, const std::string& key) {
  std::string id = terms.is_batch ? "batch/" : "debounce/";
  return id.append(terms.target).append("/").append(key);
}

}  // namespace

CollectorTerms collector_terms(const std::string& target, const Debounce& terms) {
  check_collector_time(target, "Debounce::quiet", terms.quiet);
  check_collector_time(target, "Debounce::wait_max", terms.wait_max);
  return {target, false, terms.quiet, terms.wait_max, 0};
}

CollectorTerms collector_terms(const std::string& target, const Batching& terms) {
  check_collector_time(target, "Batching::wait_max", terms.wait_max);
  if (terms.size_max == 0) {
    throw InvalidArgument("Batching::size_max of workflow '" + target + "' is 0; give at least 1");
  }
  return {target, true, {}, terms.wait_max, terms.size_max};
}

const Workflow<CollectorInput, void>& debouncer() {
  static const auto kDebouncer = workflow("holdfast.debounce", debounce_starts);
  return kDebouncer;
}

const Workflow<CollectorInput, void>& batcher() {
  static const auto kBatcher = workflow("holdfast.batch", batch_starts);
  return kBatcher;
}

/// Whoever comes first begins the collector, with what it was given; the others hand it theirs by
/// an update, whose answer says which run does it. One that ends meanwhile takes none, and another
/// one is begun: nothing is lost, and nothing is done twice.
Task<CollectedRun> EngineCore::collect(CollectorTerms terms, std::string key,
                                       boost::json::value input, std::string queue) {
  CollectedRun run;
  run.collector = collector_id(terms, key);
  const StartOptions options{.id = run.collector, .queue = queue};
  const StartTerms start_terms(options, this->queue());
  const Workflow<CollectorInput, void>& collector = terms.is_batch ? batcher() : debouncer();
  CollectorInput begins_with{terms.target,   {},   terms.quiet.count(), terms.wait_max.count(),
                             terms.size_max, input};
  record::RunEvent update;
  update.set_kind(record::RunEvent::UPDATED);
  update.set_name(std::string(kCollectedInput));
  update.set_payload(payload_text(input, kCollectedInput));
  while (run.id.empty()) {
    const StoreTime now = co_await world_->store.time();
    begins_with.run_id = run.collector + "/" + world_->next_uid(now);
    if (begins_with.run_id.size() + kBatchNumberBytes > kRunNameBytesMax) {
      throw InvalidArgument("the key '" + key + "' is too long for workflow '" + terms.target +
                            "': the id of its run would have more than " +
                            std::to_string(kRunNameBytesMax) + " bytes");
    }
    bool exists = false;
    try {
      static_cast<void>(co_await start(collector.name(), to_payload(begins_with), start_terms, {}));
    } catch (const RunExists&) {
      exists = true;
    }
    if (!exists) {
      run.id = begins_with.run_id;
      break;
    }
    try {
      const boost::json::value answer = co_await ask(run.collector, update, true);
      run.id = std::string(answer.as_string());
    } catch (const NoSuchRun&) {
      exists = false;  // It has ended, so there can be another.
    }
  }
  co_return run;
}

/// The collector starts it in the commit that ends the collector.
Task<void> EngineCore::until_collected(CollectedRun run) {
  for (bool is_collected = false; !is_collected;) {
    std::optional<RunRow> found = co_await find_run(world_->store, run.collector, Read::kApplied);
    const auto is_under_way = [&] {
      return found && !has_ended(found->head) &&
             run.id.starts_with(
                 from_payload<CollectorInput>(parse_payload(found->head.input()), "input").run_id);
    };
    is_collected = !is_under_way();
    if (!is_collected) {
      const PartitionKeys keys(found->place.queue, found->place.partition);
      Watch watch = world_->store.watch(keys.run(found->place.uid));
      found = co_await find_run(world_->store, run.collector, Read::kApplied);
      is_collected = !is_under_way();
      if (!is_collected) {
        co_await watch.changed();
      }
    }
  }
}

}  // namespace holdfast::detail
