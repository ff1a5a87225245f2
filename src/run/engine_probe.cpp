// SPDX-License-Identifier: Apache-2.0
#include "engine_probe.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine_core.hpp"
#include "run_rows.hpp"

namespace holdfast::detail {

namespace {

/// Children of children are named, too.
Task<std::string> why_run_waits(EngineCore& core, RunRow run) {
  const RunInfo info = co_await describe_run(core.store(), run);
  std::string text = "run '" + info.id + "' (" + info.type + ") ";
  if (!info.parked.empty()) {
    co_return text.append("stands still: ").append(info.parked);
  }
  const std::shared_ptr<Tenure> tenure = core.world().tenure_of(run.place);
  if (tenure == nullptr) {
    co_return text.append("belongs to queue '")
        .append(run.place.queue)
        .append("', which nobody drives here");
  }
  const Tenure::Found found = co_await tenure->find(run.place.uid);
  if (found.run == nullptr) {
    co_return text.append("is not to be found");
  }
  std::vector<std::string> waits = found.run->waits_for();
  for (RunPlace& place : found.run->children()) {
    std::optional<RunRow> child = co_await read_run(core.store(), std::move(place));
    if (child) {
      std::string why = co_await why_run_waits(core, *std::move(child));
      waits.push_back("its child: " + why);
    }
  }
  text.append("waits for ");
  for (std::size_t i = 0; i < waits.size(); ++i) {
    text.append(i == 0 ? "" : "; and for ").append(waits[i]);
  }
  co_return waits.empty() ? text.append("nothing that is known") : text;
}

}  // namespace

void EngineProbe::add(const std::string& name, std::shared_ptr<const WorkflowCode> code,
                      std::shared_ptr<const Admission> admission) {
  core_.add(name, std::move(code), std::move(admission));
}

void EngineProbe::set_call_step(CallStep call_step) {
  core_.world().call_step = std::move(call_step);
}

std::optional<StoreTime> EngineProbe::next_due() const {
  const std::optional<StoreTime> due = core_.next_due();
  const std::optional<StoreTime> look = core_.world().gates.next_look();
  return due && look ? std::min(due, look) : due ? due : look;
}

void EngineProbe::forget_waiting() {
  const TimePoint now = core_.store().clock().now();
  for (const std::shared_ptr<Tenure>& tenure : core_.ownership().tenures()) {
    tenure->evict(now);
  }
}

Task<bool> EngineProbe::has_ended(std::string id) {
  const std::optional<RunRow> run = co_await find_run(core_.store(), id, Read::kApplied);
  if (!run) {
    throw NoSuchRun("there is no run '" + id + "' in " + core_.store().url());
  }
  co_return detail::has_ended(run->head);
}

Task<boost::json::value> EngineProbe::result(std::string id) { return core_.result(std::move(id)); }

Task<std::string> EngineProbe::why_it_waits(std::string id) {
  std::optional<RunRow> run = co_await find_run(core_.store(), id);
  std::string why;
  if (run) {
    why = co_await why_run_waits(core_, *std::move(run));
  }
  co_return why;
}

}  // namespace holdfast::detail
