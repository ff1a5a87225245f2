// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/transaction.hpp>

struct sqlite3;

namespace holdfast {

/// The connection to the store's own file, for your SQL in a transaction: see `Store::transact` and
/// `Context::transact`. Throws `Unsupported` if the store is of another kind.
///
/// ```
/// sqlite3* db = sqlite_connection(transaction);
/// sqlite3_exec(db, "UPDATE stock SET left = left - 1 WHERE item = 7", nullptr, nullptr, nullptr);
/// ```
///
/// It has begun its transaction already, and is for this thread until the function returns. Tables
/// of yours are made with it as well; those of the store, `entries` and `state`, can be read. It
/// refuses BEGIN, COMMIT and ROLLBACK (savepoints may be used), ATTACH and DETACH, what is TEMP,
/// changes of the store's tables, and each PRAGMA but those that describe the schema: then nothing
/// of the transaction happens, and the message says what was refused. That is against mistakes; who
/// takes settings of the connection away can do what SQLite can. Finalise what you prepare. Look at
/// the results of SQLite: a statement that failed has done nothing, and the others are committed.
/// Foreign keys are not enforced, as is SQLite's default.
[[nodiscard]] sqlite3* sqlite_connection(Transaction& transaction);

}  // namespace holdfast
