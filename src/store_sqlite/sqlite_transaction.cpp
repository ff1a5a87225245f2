// SPDX-License-Identifier: Apache-2.0
#include "sqlite_transaction.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/sqlite_transaction.hpp>
#include <holdfast/store_error.hpp>

#include "database.hpp"

namespace holdfast {

namespace detail {

namespace {

/// They tell of the schema, and change nothing.
constexpr std::array<std::string_view, 15> kHarmlessPragmas{
    "collation_list",   "compile_options", "data_version", "database_list", "foreign_key_check",
    "foreign_key_list", "function_list",   "index_info",   "index_list",    "index_xinfo",
    "integrity_check",  "module_list",     "table_info",   "table_list",    "table_xinfo"};

bool is_harmless_pragma(std::string_view name, const char* argument) {
  if (name == "page_size" || name == "user_version" || name == "application_id") {
    return argument == nullptr;
  }
  return std::find(kHarmlessPragmas.begin(), kHarmlessPragmas.end(), name) !=
         kHarmlessPragmas.end();
}

/// As of sqlite3_set_authorizer().
struct Action {
  int code;
  const char* first;
  const char* second;
};

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

std::string of_own_table(std::string_view what, const char* table) {
  if (!is_own_table(table)) {
    return {};
  }
  return std::string(what) + " '" + table +
         "', a table of the store's own: make one of yours, under another name";
}

/// Why it is refused; empty: it is not.
std::string why_not(const Action& action) {
  switch (action.code) {
    case SQLITE_TRANSACTION:
      return text_or_empty(action.first) +
             ": the transaction begins and ends with the function; to take it back, throw. A part "
             "of it can be taken back with SAVEPOINT and ROLLBACK TO";
    case SQLITE_ATTACH:
      return "ATTACH: the transaction is one of the store's file alone";
    case SQLITE_DETACH:
      return "DETACH: the transaction is one of the store's file alone";
    case SQLITE_PRAGMA:
      return is_harmless_pragma(text_or_empty(action.first), action.second)
                 ? std::string{}
                 : "PRAGMA " + text_or_empty(action.first) +
                       ": the settings of the connection are the store's";
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW:
      return "TEMP '" + text_or_empty(action.first) +
             "': it would stay with the store's connection; use WITH, or a table that is not TEMP";
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      return of_own_table("it writes to", action.first);
    case SQLITE_DROP_TABLE:
      return of_own_table("it drops", action.first);
    case SQLITE_ALTER_TABLE:
      return of_own_table("it alters", action.second);
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TRIGGER:
      return of_own_table("it makes an index or a trigger of", action.second);
    default:
      return {};
  }
}

std::vector<sqlite3_stmt*> statements_of(sqlite3* connection) {
  std::vector<sqlite3_stmt*> all;
  for (sqlite3_stmt* one = sqlite3_next_stmt(connection, nullptr); one != nullptr;
       one = sqlite3_next_stmt(connection, one)) {
    all.push_back(one);
  }
  std::sort(all.begin(), all.end());
  return all;
}

int refuse_commit(void* /*unused*/) { return 1; }

class SqliteTransaction final : public Transaction {
 public:
  explicit SqliteTransaction(Connection& connection)
      : connection_(connection), before_(statements_of(connection.handle())) {
    sqlite3_set_authorizer(handle(), ask, this);
    // After a statement has rolled the transaction back, the next would commit by itself.
    sqlite3_commit_hook(handle(), refuse_commit, nullptr);
  }
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  ~SqliteTransaction() override { restore(); }

  [[nodiscard]] sqlite3* handle() const noexcept { return connection_.handle(); }

  void run(const std::function<void(Transaction&)>& work) {
    std::exception_ptr thrown;
    try {
      work(*this);
    } catch (...) {
      thrown = std::current_exception();
    }
    restore();
    const std::string left = end_left_statements();
    if (!refused_.empty()) {
      refuse("its SQL was refused. " + refused_);  // That says more than what SQLite says.
    }
    if (thrown) {
      std::rethrow_exception(thrown);
    }
    if (!left.empty()) {
      refuse("its function has left a statement open, which was ended: " + left +
             ". Finalise each before the function returns");
    }
    if (sqlite3_get_autocommit(handle()) != 0) {
      refuse(
          "it was rolled back before its end, by its own SQL (ON CONFLICT ROLLBACK, OR ROLLBACK, "
          "RAISE(ROLLBACK)) or by an error of SQLite. Look at the result of each statement");
    }
  }

 private:
  static int ask(void* self, int action, const char* first, const char* second,
                 const char* /*database*/, const char* /*trigger*/) {
    std::string why = why_not({action, first, second});
    if (why.empty()) {
      return SQLITE_OK;
    }
    std::string& refused = static_cast<SqliteTransaction*>(self)->refused_;
    if (refused.empty()) {
      refused = std::move(why);
    }
    return SQLITE_DENY;
  }

  void restore() noexcept {
    sqlite3_set_authorizer(handle(), nullptr, nullptr);
    sqlite3_commit_hook(handle(), nullptr, nullptr);
    sqlite3_rollback_hook(handle(), nullptr, nullptr);
    sqlite3_update_hook(handle(), nullptr, nullptr);
    sqlite3_progress_handler(handle(), 0, nullptr, nullptr);
    sqlite3_extended_result_codes(handle(), 1);
    set_safety(handle());
  }

  /// The text of one; empty: there is none.
  [[nodiscard]] std::string end_left_statements() {
    std::vector<sqlite3_stmt*> left;
    const std::vector<sqlite3_stmt*> now = statements_of(handle());
    std::set_difference(now.begin(), now.end(), before_.begin(), before_.end(),
                        std::back_inserter(left));
    if (left.empty()) {
      return {};
    }
    // A virtual table keeps statements and blobs of its own, which nobody can tell from others.
    const bool may_be_of_table = connection_
                                     .query(
                                         "SELECT 1 FROM sqlite_master WHERE type = 'table' AND "
                                         "sql LIKE 'CREATE VIRTUAL TABLE%' LIMIT 1")
                                     .has_value();
    std::string text;
    for (sqlite3_stmt* statement : left) {
      const char* sql = sqlite3_sql(statement);
      if (may_be_of_table && (sql == nullptr || sqlite3_stmt_busy(statement) == 0)) {
        continue;
      }
      text = sql == nullptr ? "(one without a text, as of a blob)" : sql;
      if (may_be_of_table) {
        sqlite3_reset(statement);
      } else {
        sqlite3_finalize(statement);
      }
    }
    return text;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw TransactionRefused("a transaction of " + connection_.path() + ": " + why +
                             ". Nothing of it happened");
  }

  Connection& connection_;
  const std::vector<sqlite3_stmt*> before_;
  std::string refused_;
};

}  // namespace

void run_in_transaction(Connection& connection, const std::function<void(Transaction&)>& work) {
  SqliteTransaction(connection).run(work);
}

}  // namespace detail

sqlite3* sqlite_connection(Transaction& transaction) {
  auto* const of_sqlite = dynamic_cast<detail::SqliteTransaction*>(&transaction);
  if (of_sqlite == nullptr) {
    throw Unsupported("sqlite_connection: the transaction is of a store of another kind");
  }
  return of_sqlite->handle();
}

}  // namespace holdfast
