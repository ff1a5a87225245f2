// SPDX-License-Identifier: Apache-2.0
#include <holdfast/store.hpp>

#include <array>
#include <string>
#include <utility>

#include "printable.hpp"
#include "watch_list.hpp"

namespace holdfast {

namespace {

[[noreturn]] void refuse_key(const Store& store, std::string_view key) {
  if (key.empty()) {
    throw InvalidArgument("a key for " + store.url() + " is empty; give it at least one byte");
  }
  throw InvalidArgument("the key " + detail::printable(key) + " has " + std::to_string(key.size()) +
                        " bytes; " + store.url() + " takes keys of up to " +
                        std::to_string(store.capabilities().limits.key_bytes_max));
}

[[noreturn]] void refuse_value(const Store& store, const Batch::Write& write) {
  throw InvalidArgument("the value for the key " + detail::printable(write.key) + " has " +
                        std::to_string(write.value->size()) + " bytes; " + store.url() +
                        " takes values of up to " +
                        std::to_string(store.capabilities().limits.value_bytes_max));
}

void check_key(const Store& store, const StoreLimits& limits, std::string_view key) {
  if (key.empty() || key.size() > limits.key_bytes_max) {
    refuse_key(store, key);
  }
}

void check_batch(const Store& store, const Batch& batch) {
  const StoreLimits limits = store.capabilities().limits;
  if (batch.size() > limits.batch_operations_max) {
    throw InvalidArgument("a batch has " + std::to_string(batch.size()) +
                          " conditions and writes; " + store.url() + " takes up to " +
                          std::to_string(limits.batch_operations_max) + ": split it");
  }
  for (const Batch::Condition& condition : batch.conditions()) {
    check_key(store, limits, condition.key);
  }
  for (const Batch::Write& write : batch.writes()) {
    check_key(store, limits, write.key);
    if (write.value && write.value->size() > limits.value_bytes_max) {
      refuse_value(store, write);
    }
  }
  if (batch.bytes() > limits.batch_bytes_max) {
    throw InvalidArgument("a batch has " + std::to_string(batch.bytes()) +
                          " bytes of keys and values; " + store.url() + " takes up to " +
                          std::to_string(limits.batch_bytes_max) + ": split it");
  }
}

}  // namespace

Task<std::optional<Entry>> Store::get(std::string_view key, Read read) {
  check_key(*this, capabilities().limits, key);
  return do_get(std::string(key), read);
}

Task<Page> Store::scan(std::string_view prefix, const ScanOptions& options) {
  if (options.limit == 0) {
    throw InvalidArgument("scan: the limit is 0; ask for at least one entry");
  }
  return do_scan({std::string(prefix), std::string(options.after), options.limit}, options.read);
}

Task<CommitOutcome> Store::commit(Batch batch) {
  check_batch(*this, batch);
  return do_commit(std::move(batch), Wait::kForDisk);
}

Task<CommitOutcome> Store::apply(Batch batch) {
  check_batch(*this, batch);
  return do_commit(std::move(batch), Wait::kForDecision);
}

std::optional<CommitOutcome> Store::try_apply(const Batch& batch) {
  check_batch(*this, batch);
  return do_try_apply(batch);
}

Task<CommitOutcome> Store::transact(TransactionWork work) {
  require_capabilities(*this, {.sql = true}, "transact");
  return do_transact([this, inner = std::move(work)](Transaction& transaction) {
    Batch batch = inner(transaction);
    batch.append(transaction.guards());
    check_batch(*this, batch);
    return batch;
  });
}

Task<CommitOutcome> Store::do_transact(TransactionWork /*work*/) {
  throw Unsupported("transact: " + url() + " takes no SQL of the caller into its commits");
}

Task<void> Store::until_durable(Version version) { return do_until_durable(version); }

Watch Store::watch(std::string_view prefix) { return Watch(do_watch(std::string(prefix))); }

void require_capabilities(const Store& store, const Capabilities& needed, std::string_view user) {
  struct Capability {
    bool Capabilities::* has;
    std::string_view name;
    std::string_view without;
  };
  static constexpr std::array<Capability, 5> kAll{{
      {&Capabilities::durable, "durable", "what it commits may be lost"},
      {&Capabilities::atomic, "atomic", "it may apply half of a batch"},
      {&Capabilities::shared, "shared", "other processes do not see it"},
      {&Capabilities::notifies, "notifies", "it does not tell of changes"},
      {&Capabilities::sql, "sql", "it takes no SQL of the caller into its commits; sqlite: does"},
  }};
  for (const Capability& one : kAll) {
    if (needed.*one.has && !(store.capabilities().*one.has)) {
      throw Unsupported(std::string(user) + " needs a store that is '" + std::string(one.name) +
                        "', and " + store.url() + " is not: " + std::string(one.without));
    }
  }
}

}  // namespace holdfast
