// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include <holdfast/batch.hpp>

namespace holdfast {

/// A transaction of a store's own database, as the function sees it whose SQL is part of it: see
/// `Store::transact`. What the SQL goes through is up to the kind of store: `sqlite_connection`.
///
/// Only for the thread in which the function is called, and only until it returns.
class Transaction {
 public:
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  virtual ~Transaction() = default;

  /// Nothing of the transaction happens unless the key exists at this version when it is committed:
  /// as `Batch::guard`, and the outcome is `Fenced`. Of a durable lock: `DurableHold::guard`.
  Transaction& guard(std::string_view key, Version version) {
    guards_.guard(key, version);
    return *this;
  }
  [[nodiscard]] const Batch& guards() const noexcept { return guards_; }

 protected:
  Transaction() = default;

 private:
  Batch guards_;
};

/// What is done in a transaction, with the batch that is to be part of it.
using TransactionWork = std::function<Batch(Transaction& transaction)>;

}  // namespace holdfast
