// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gate_rules.hpp"
#include "store/conditions.hpp"

namespace holdfast::detail::testing {

constexpr StoreTime at(int time) { return StoreTime(Duration(time)); }

/// What the rules need of a store.
class Table {
 public:
  [[nodiscard]] std::optional<Entry> find(const std::string& key) const {
    const auto found = rows_.find(key);
    return found == rows_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::vector<Entry> scan(const std::string& prefix) const {
    std::vector<Entry> found;
    for (auto row = rows_.lower_bound(prefix); row != rows_.end() && row->first.starts_with(prefix);
         ++row) {
      found.push_back(row->second);
    }
    return found;
  }
  Version commit(const Batch& batch) {
    const auto version_of = [&](std::size_t condition) {
      const auto entry = find(std::string(batch.conditions()[condition].key));
      return entry ? std::optional(entry->version) : std::nullopt;
    };
    EXPECT_EQ(broken_condition(batch, version_of), std::nullopt) << "nobody else writes";
    ++version_;
    for (const Batch::Write& write : batch.writes()) {
      const std::string key(write.key);
      if (write.value) {
        rows_.insert_or_assign(key, Entry{key, std::string(*write.value), version_});
      } else {
        rows_.erase(key);
      }
    }
    return version_;
  }

 private:
  std::map<std::string, Entry> rows_;
  Version version_ = 100;
};

/// A session is a row whose text is the moment at which it expires.
inline std::string session_key(int session) {
  std::string key("session/");
  return key.append(std::to_string(session));
}

/// A gate in a table, read anew for each operation, as by a process that knows nothing.
class Gate {
 public:
  explicit Gate(GateDefinition definition, std::size_t window = 3)
      : definition_(std::move(definition)), window_(window) {}

  void live_until(int session, int time) {
    Batch batch;
    batch.put(session_key(session), std::to_string(time));
    table_.commit(std::move(batch));
  }
  void close(int session) {
    Batch batch;
    batch.erase(session_key(session));
    table_.commit(std::move(batch));
  }

  [[nodiscard]] bool has_row(int session) const {
    return table_.find(session_key(session)).has_value();
  }

  Asked ask(const GateRequest& request, int now) {
    Asked asked;
    change(now, [&](GateRows& rows, KnownLeases& leases) {
      define(rows, definition_);
      check_request(rows, request);
      asked = detail::ask(rows, leases, std::make_shared<const GateRequest>(request), at(now));
      return asked.served.needs_more_waiters;
    });
    return asked;
  }
  Served serve(int now) {
    Served served;
    change(now, [&](GateRows& rows, KnownLeases& leases) {
      served = detail::serve(rows, leases, at(now));
      return served.needs_more_waiters;
    });
    return served;
  }
  /// False: it holds nothing.
  bool release(const std::string& holder_key, int now) {
    bool held = false;
    change(now, [&](GateRows& rows, KnownLeases& leases) {
      held = rows.holders().contains(holder_key);
      if (held) {
        rows.end(holder_key, record::GateGrant::RELEASED, at(now));
      }
      return detail::serve(rows, leases, at(now)).needs_more_waiters;
    });
    return held;
  }
  void leave(const std::string& waiter_key, int now) {
    change(now, [&](GateRows& rows, KnownLeases& leases) {
      if (const auto waiter = table_.find(waiter_key)) {
        rows.read_waiter(*waiter);
        rows.leave(waiter_key);
      }
      return detail::serve(rows, leases, at(now)).needs_more_waiters;
    });
  }
  template <class Change>
  void set(int now, const Change& to) {
    change(now, [&](GateRows& rows, KnownLeases& leases) {
      define(rows, definition_);
      to(rows.change_head());
      return detail::serve(rows, leases, at(now)).needs_more_waiters;
    });
  }

  [[nodiscard]] GateRows rows(std::size_t window = 1'000) const {
    GateRows rows{GateKeys(kName)};
    if (const auto head = table_.find(rows.keys().head())) {
      rows.read_head(*head);
    }
    for (const Entry& entry : table_.scan(rows.keys().holders())) {
      rows.read_holder(entry);
    }
    const auto waiters = table_.scan(rows.keys().waiters());
    for (std::size_t i = 0; i < std::min(window, waiters.size()); ++i) {
      rows.read_next_waiter(waiters[i]);
    }
    rows.has_more_waiters(waiters.size() > window);
    EXPECT_EQ(rows.waiter_count(), waiters.size());
    return rows;
  }
  [[nodiscard]] std::vector<std::string> holders() const {
    std::vector<std::string> names;
    const GateRows read = rows();
    for (const auto& [key, holder] : read.holders()) {
      names.push_back(holder.request->asker->holder);
    }
    std::ranges::sort(names);
    return names;
  }
  [[nodiscard]] std::string any_holder_key() const {
    const GateRows read = rows();
    return read.holders().begin()->first;
  }
  [[nodiscard]] std::vector<std::string> waiters() const {
    std::vector<std::string> names;
    const GateRows read = rows();
    for (const auto& [key, waiter] : read.waiters()) {
      names.push_back(waiter.request->asker->holder);
    }
    return names;
  }
  [[nodiscard]] Version fence(const std::string& holder_key) const {
    return table_.find(holder_key)->version;
  }
  [[nodiscard]] std::vector<record::GateGrant> ended() const {
    std::vector<record::GateGrant> grants;
    for (const Entry& entry : table_.scan(GateKeys(kName).grants())) {
      EXPECT_TRUE(grants.emplace_back().ParseFromString(entry.value));
    }
    return grants;
  }

  static constexpr const char* kName = "test";

 private:
  /// Reads, and does it; again with more if that was too little.
  template <class Operation>
  void change(int now, const Operation& operation) {
    KnownLeases leases;
    for (std::size_t window = window_;;) {
      GateRows draft = rows(window);
      const bool needs_more = operation(draft, leases);
      const auto missing = leases.take_missing();
      if (missing.empty() && !needs_more) {
        if (draft.changed()) {
          draft.committed(table_.commit(draft.take_batch()));
        }
        return;
      }
      for (const std::string& key : missing) {
        leases.learn(key, read_lease(key, now));
      }
      window += needs_more ? window_ : 0;
    }
  }
  [[nodiscard]] KnownLeases::Lease read_lease(const std::string& key, int now) const {
    const auto row = table_.find(key);
    if (!row) {
      return {};
    }
    const int expires_at = std::stoi(row->value);
    return {.liveness = expires_at <= now ? Liveness::kExpired : Liveness::kLive,
            .version = row->version,
            .expires_at = at(expires_at)};
  }

  GateDefinition definition_;
  std::size_t window_;
  Table table_;
};

inline GateRequest request(int session, const std::string& name) {
  GateRequest request;
  request.asker = shared_asker({name, std::to_string(session), session_key(session), {}});
  request.request_id = name;
  return request;
}

inline GateDefinition permits(std::uint64_t capacity) {
  GateDefinition definition;
  definition.capacity = capacity;
  return definition;
}

}  // namespace holdfast::detail::testing
