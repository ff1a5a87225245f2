// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <holdfast/transaction.hpp>

#include "connection.hpp"

namespace holdfast::detail {

/// Calls `work` in the transaction that `connection` has begun, and keeps it from what is not its
/// own: nothing is committed meanwhile, whatever its SQL does, and after it the connection is as it
/// was. Throws what `work` throws, or `TransactionRefused`; then the transaction is to be rolled
/// back, if it is not over. Hooks of the log are to be set again.
void run_in_transaction(Connection& connection, const std::function<void(Transaction&)>& work);

}  // namespace holdfast::detail
