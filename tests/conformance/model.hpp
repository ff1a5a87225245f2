// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <holdfast/store.hpp>

namespace holdfast::conformance {

using std::string_literals::operator""s;

// Few, so that they meet; neighbours, so that prefixes and bounds matter.
inline const std::array<std::string, 12> kKeys{"a"s, "a\0"s, "aa"s, "ab"s,   "a\xff"s,    "b"s,
                                               "B"s, "a%"s,  "a_"s, "\xff"s, "\xff\xff"s, "\0"s};
inline const std::array<std::string, 8> kPrefixes{""s,     "a"s,  "aa"s, "a\xff"s,
                                                  "\xff"s, "\0"s, "b"s,  "%"s};

enum class Act { kCommit, kApply, kGet, kScan, kReopen };

struct Condition {
  int key;
  int kind;  // Absent, the current version, an old one, or a guard of either.
};
struct Write {
  int key;
  bool erase;
  std::string value;
};
struct Step {
  Act act;
  int connection;
  std::vector<Condition> conditions;
  std::vector<Write> writes;
  int key;
  int prefix;
  int limit;
};

inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr std::array<const char*, 5> kActs{"commit", "apply", "get", "scan", "reopen"};
  out << kActs.at(static_cast<std::size_t>(step.act)) << " on " << step.connection << " if";
  for (const Condition& condition : step.conditions) {
    out << " (key " << condition.key << " kind " << condition.kind << ")";
  }
  out << " then";
  for (const Write& write : step.writes) {
    out << " (key " << write.key << (write.erase ? " erased" : " = " + write.value) << ")";
  }
  return out << "; key " << step.key << " prefix " << step.prefix << " limit " << step.limit;
}

/// What a store is, in its simplest form.
class Model {
 public:
  /// What the batch of `step` should end with, having done it.
  std::string commit(const Step& step, Version version) {
    std::string conflict;
    for (const Condition& condition : step.conditions) {
      if (holds(condition)) {
        continue;
      }
      const std::string& key = key_of(condition.key);
      const auto row = rows_.find(key);
      const std::string current =
          key + ": " + (row == rows_.end() ? "(absent)" : row->second.value);
      if (condition.kind >= 3) {
        return "fenced by " + current;
      }
      if (conflict.empty()) {
        conflict = "conflict on " + current;
      }
    }
    if (!conflict.empty()) {
      return conflict;
    }
    for (const Write& write : step.writes) {
      rows_.erase(key_of(write.key));
      if (!write.erase) {
        rows_[key_of(write.key)] = {key_of(write.key), write.value, version};
      }
    }
    return "committed";
  }
  [[nodiscard]] Batch batch_of(const Step& step) const {
    Batch batch;
    for (const Condition& condition : step.conditions) {
      const std::string& key = key_of(condition.key);
      if (condition.kind == 0) {
        batch.require_absent(key);
      } else if (condition.kind < 3) {
        batch.require_version(key, wanted(condition));
      } else {
        batch.guard(key, wanted(condition));
      }
    }
    for (const Write& write : step.writes) {
      if (write.erase) {
        batch.erase(key_of(write.key));
      } else {
        batch.put(key_of(write.key), write.value);
      }
    }
    return batch;
  }
  [[nodiscard]] std::optional<Entry> get(int key) const {
    const auto row = rows_.find(key_of(key));
    return row == rows_.end() ? std::nullopt : std::optional(row->second);
  }
  [[nodiscard]] Page scan(const std::string& prefix, const std::string& after,
                          std::size_t limit) const {
    Page page;
    for (const auto& [key, entry] : rows_) {
      if (!key.starts_with(prefix) || (!after.empty() && key <= after)) {
        continue;
      }
      if (page.entries.size() == limit) {
        page.more = true;
        break;
      }
      page.entries.push_back(entry);
    }
    return page;
  }
  static const std::string& key_of(int key) { return kKeys.at(static_cast<std::size_t>(key)); }

 private:
  [[nodiscard]] Version wanted(const Condition& condition) const {
    const auto row = rows_.find(key_of(condition.key));
    const Version current = row == rows_.end() ? 0 : row->second.version;
    return condition.kind % 2 == 1 || current == 0 ? current : current - 1;
  }
  [[nodiscard]] bool holds(const Condition& condition) const {
    const bool there = rows_.contains(key_of(condition.key));
    return condition.kind == 0 ? !there : there && condition.kind % 2 == 1;
  }

  std::map<std::string, Entry> rows_;
};

}  // namespace holdfast::conformance
