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

/// In the commit that ends the collector. Until then the collector knows the keys, and from then on
/// they are those of the run: so the same start counts once, whenever it comes.
void start_target(Context& ctx, const CollectorInput& input, const boost::json::value& value,
                  const std::string& id, const std::vector<std::string>& keys) {
  const ChildOptions on_its_own{
      .id = id, .parent_close = ParentClose::kAbandon, .idempotency_keys = keys};
  static_cast<void>(ctx.child<boost::json::value>(input.target, value, on_its_own));
}

std::vector<std::string> keys_at_first(const CollectorInput& input) {
  std::vector<std::string> keys;
  if (input.first_key) {
    keys.push_back(*input.first_key);
  }
  return keys;
}

Task<void> debounce_starts(Context& ctx, CollectorInput input) {
  boost::json::value last = input.first;
  std::vector<std::string> keys = keys_at_first(input);
  std::uint64_t came = 0;
  const auto take = [&](boost::json::value next) {
    last = std::move(next);
    ++came;
    return input.run_id;
  };
  ctx.on_update<boost::json::value, std::string>(kCollectedInput, take);
  ctx.on_update<CollectedStart, std::string>(kCollectedOnce, [&](CollectedStart start) {
    if (std::ranges::find(keys, start.key) != keys.end()) {
      return input.run_id;
    }
    keys.push_back(std::move(start.key));
    return take(std::move(start.input));
  });
  const StoreTime end = ctx.now() + Duration(input.wait_max_ns);
  bool goes_on = true;
  while (goes_on) {
    const std::uint64_t known = came;
    const Duration time = std::min(Duration(input.quiet_ns), end - ctx.now());
    const bool is_more = co_await ctx.wait_until([&] { return came != known; }, time);
    goes_on = is_more && ctx.now() < end;
  }
  start_target(ctx, input, last, input.run_id, keys);
}

/// More may come with the one that fills the batch: they are in the next one.
std::string id_of_batch(const CollectorInput& input, std::size_t batch) {
  return batch == 0 ? input.run_id : input.run_id + "-" + std::to_string(batch + 1);
}

struct CollectedBatch {
  boost::json::array inputs;
  std::vector<std::string> keys;
};

Task<void> batch_starts(Context& ctx, CollectorInput input) {
  std::vector<CollectedBatch> batches{{{input.first}, keys_at_first(input)}};
  const auto take = [&](boost::json::value next) {
    if (batches.back().inputs.size() == input.size_max) {
      batches.emplace_back();
    }
    batches.back().inputs.push_back(std::move(next));
    return id_of_batch(input, batches.size() - 1);
  };
  ctx.on_update<boost::json::value, std::string>(kCollectedInput, take);
  ctx.on_update<CollectedStart, std::string>(kCollectedOnce, [&](CollectedStart start) {
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (std::ranges::find(batches[i].keys, start.key) != batches[i].keys.end()) {
        return id_of_batch(input, i);
      }
    }
    std::string id = take(std::move(start.input));
    batches.back().keys.push_back(std::move(start.key));
    return id;
  });
  [[maybe_unused]] const bool is_full = co_await ctx.wait_until(
      [&] { return batches.front().inputs.size() >= input.size_max; }, Duration(input.wait_max_ns));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    start_target(ctx, input, std::move(batches[i].inputs), id_of_batch(input, i), batches[i].keys);
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

namespace {

record::RunEvent update_of(const boost::json::value& input, const std::string& start_key) {
  record::RunEvent update;
  update.set_kind(record::RunEvent::UPDATED);
  if (start_key.empty()) {
    update.set_name(std::string(kCollectedInput));
    update.set_payload(payload_text(input, kCollectedInput));
  } else {
    update.set_name(std::string(kCollectedOnce));
    update.set_payload(payload_text(to_payload(CollectedStart{start_key, input}), kCollectedOnce));
  }
  return update;
}

}  // namespace

/// Whoever comes first begins the collector, with what it was given; the others hand it theirs by
/// an update, whose answer says which run does it. One that ends meanwhile takes none, and another
/// one is begun: nothing is lost, and nothing is done twice.
Task<CollectedRun> EngineCore::collect(CollectorTerms terms, std::string key,
                                       boost::json::value input, CollectTerms how) {
  CollectedRun run;
  run.collector = collector_id(terms, key);
  const StartOptions options{
      .id = run.collector, .idempotency_key = how.start_key, .queue = how.queue};
  StartTerms start_terms(options, queue());
  start_terms.keeps_start_key = false;
  const Workflow<CollectorInput, void>& collector = terms.is_batch ? batcher() : debouncer();
  CollectorInput begins_with{terms.target,   {},   terms.quiet.count(), terms.wait_max.count(),
                             terms.size_max, input};
  if (!how.start_key.empty()) {
    begins_with.first_key = how.start_key;
  }
  StoreTime now = co_await world_->store.time();
  record::RunEvent update = update_of(input, how.start_key);
  update.set_request(world_->next_uid(now));  // If the answer gets lost, it is asked for again.
  while (run.id.empty()) {
    now = co_await world_->store.time();
    begins_with.run_id = run.collector + "/" + world_->next_uid(now);
    if (begins_with.run_id.size() + kBatchNumberBytes > kRunNameBytesMax) {
      throw InvalidArgument("the key '" + key + "' is too long for workflow '" + terms.target +
                            "': the id of its run would have more than " +
                            std::to_string(kRunNameBytesMax) + " bytes");
    }
    bool exists = false;
    try {
      std::string id = co_await start(collector.name(), to_payload(begins_with), start_terms, {});
      run.id = id == run.collector ? begins_with.run_id : std::move(id);
    } catch (const RunExists&) {
      exists = true;
    }
    if (!exists) {
      break;
    }
    try {
      run.id = co_await hand_to_collector(run.collector, update, start_terms);
    } catch (const NoSuchRun&) {
      exists = false;  // It has ended, so there can be another.
    }
  }
  co_return run;
}

/// The id of the run that does it; empty: look again. A start that counts once may have been
/// collected by an earlier one, whose end has put down its key: so the collector is looked for
/// first, then the key, and no other collector than that is asked.
Task<std::string> EngineCore::hand_to_collector(std::string collector, record::RunEvent update,
                                                const StartTerms& terms) {
  RunRow row = co_await find_open(collector);
  Batch conditions;  // Of no use here: the collector sees to it.
  const Existing existing = co_await find_existing(terms, conditions);
  if (existing.same) {
    co_return id_of(existing.same->head, existing.same->place);
  }
  const std::optional<boost::json::value> answer =
      co_await ask_this(std::move(row), std::move(update), true);
  co_return answer ? std::string(answer->as_string()) : std::string();
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
