// SPDX-License-Identifier: Apache-2.0
// The ids of children, each of which belongs to one run at a time.
#include <map>
#include <utility>

#include <holdfast/run_error.hpp>

#include "live_run.hpp"
#include "run_directory.hpp"
#include "run_failure.hpp"
#include "run_keys.hpp"
#include "run_rows.hpp"
#include "tenure.hpp"

namespace holdfast::detail {

namespace {

record::RunEvent not_begun(const BegunChild& child, const std::exception_ptr& why) {
  record::RunEvent event;
  event.set_kind(record::RunEvent::CHILD_ENDED);
  event.set_operation(child.operation);
  *event.mutable_failure() = failure_of(why);
  return event;
}

}  // namespace

/// They are read before the commit that takes them, which is on condition that they have not
/// changed. A child whose id is taken is not begun: that ends the wait for it, as its journal says.
Task<void> LiveRun::settle_names(Activated& activated, StateChanges& changes) {
  Store& store = tenure_->world().store;
  // Of runs that are not in the store yet: the parent, perhaps, and children before this one.
  std::map<std::string, std::string> types{{id_of(head_, place()), head_.type()}};
  for (const BegunChild& child : activated.children) {
    const std::string& id = child.terms.id;
    if (id.empty() || !is_begun(activated, child)) {
      continue;
    }
    if (child.terms.takes_lock && !locks_.contains(*child.terms.takes_lock)) {
      const StaleFence lost("'" + id + "' cannot begin: what it would hold was taken away");
      changes.events.push_back(not_begun(child, std::make_exception_ptr(lost)));
      continue;
    }
    const auto [known, is_new] = types.emplace(id, child.type);
    bool is_taken = !is_new;
    if (is_new) {
      const std::string key = run_id_key(id);
      const std::optional<Entry> row = co_await store.get(key, Read::kApplied);
      std::optional<RunRow> run;
      if (row) {
        RunPlace there = detail::place_of(read_row<record::RunName>(*row, "the name").place());
        run = co_await read_run(store, std::move(there), Read::kApplied);
      }
      is_taken = run && !has_ended(run->head);
      if (is_taken) {
        known->second = run->head.type();
      } else {
        if (row) {
          changes.batch.require_version(key, row->version);
        } else {
          changes.batch.require_absent(key);
        }
        changes.batch.put(key, name_row(place_of_child(child)));
      }
    }
    if (!is_taken && child.terms.takes_lock) {
      record::RunEvent& event = changes.events.emplace_back();
      event.set_kind(record::RunEvent::CHILD_STARTED);
      event.set_operation(child.operation);
    } else if (is_taken) {
      const auto index = static_cast<int>(child.operation - next_operation_);
      activated.record.mutable_operations(index)->clear_child();
      changes.events.push_back(
          not_begun(child, std::make_exception_ptr(run_exists(id, known->second))));
      changes.events.back().set_name(known->second);
    }
  }
}

}  // namespace holdfast::detail
