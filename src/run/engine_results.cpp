// SPDX-License-Identifier: Apache-2.0
// What came of runs, wherever they are driven.
#include <concepts>
#include <utility>

#include <holdfast/error.hpp>

#include "engine_core.hpp"
#include "run_keys.hpp"
#include "run_payload.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

/// Of a run that has ended. Nothing: another one goes on in its place.
template <std::invocable PlaceOf>
std::optional<boost::json::value> value_of(const record::RunHead& head, const PlaceOf& place_of) {
  std::optional<boost::json::value> value;
  if (head.state() == record::RunHead::COMPLETED) {
    value = parse_payload(head.result());
  } else if (head.state() != record::RunHead::CONTINUED) {
    throw RunFailed(ending_text(info_of(head, place_of())));
  }
  return value;
}

}  // namespace

/// Nothing: something has changed, so that it is worth to look again.
Task<std::optional<boost::json::value>> EngineCore::stored_result(const std::string& id) {
  std::optional<Watch> watch;
  std::optional<RunRow> run = co_await find_run(world_->store, id, Read::kApplied);
  if (run && !has_ended(run->head)) {
    watch.emplace(world_->store.watch(
        PartitionKeys(run->place.queue, run->place.partition).run(run->place.uid)));
    run = co_await find_run(world_->store, id, Read::kApplied);  // Seen after the watch is there.
  }
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  std::optional<boost::json::value> value;
  if (has_ended(run->head)) {
    co_await world_->store.until_durable(run->version);
    value = value_of(run->head, [&] { return run->place; });
  } else if (watch) {
    co_await watch->changed();
  }
  co_return value;
}

Task<boost::json::value> EngineCore::result(std::string id) {
  for (;;) {
    std::shared_ptr<LiveRun> here;
    if (const auto place = place_in_id(id)) {
      if (const auto tenure = tenure_of(*place)) {
        here = tenure->find_live(place->uid);
      }
    }
    std::optional<boost::json::value> value;
    if (here != nullptr) {
      const std::uint64_t heard = here->ended().count();
      if (!here->end_version()) {
        co_await here->ended().rung_since(heard);
      }
      if (const std::optional<Version> version = here->end_version()) {
        // Before the wait, so that the run need not be kept in memory until then.
        std::exception_ptr failure;
        try {
          value = value_of(here->head(), [&] { return here->place(); });
        } catch (const RunFailed&) {
          failure = std::current_exception();
        }
        here.reset();
        co_await world_->store.until_durable(*version);
        if (failure) {
          std::rethrow_exception(failure);
        }
      }
    }
    if (!value) {
      value = co_await stored_result(id);
    }
    if (value) {
      co_return *std::move(value);
    }
  }
}

Task<RunInfo> EngineCore::resume(std::string id) {
  std::optional<RunRow> run = co_await find_run(world_->store, id, Read::kApplied);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + world_->store.url());
  }
  if (const auto tenure = tenure_of(run->place)) {
    static_cast<void>(co_await tenure->find(run->place.uid));
  }
  RunInfo info = co_await describe_run(world_->store, *std::move(run));
  co_return info;
}

}  // namespace holdfast::detail
