// SPDX-License-Identifier: Apache-2.0
#include <holdfast/session.hpp>

#include <errno.h>  // NOLINT(modernize-deprecated-headers): program_invocation_short_name
#include <unistd.h>

#include <array>
#include <exception>
#include <utility>

#include "session_heartbeat.hpp"
#include "session_rules.hpp"
#include "store/printable.hpp"

namespace holdfast {

namespace {

constexpr Duration kTtlMax = std::chrono::hours(24);
constexpr std::size_t kNameBytesMax = 256;
/// One for renewals, one for deadlines, which a renewal that hangs must not hold up.
constexpr std::size_t kOwnThreads = 2;

std::string host_name() {
  std::array<char, 256> name{};
  // A longer name is cut, and may then lack its end.
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data())
                                                          : std::string();
}

std::string default_name() {
  std::string name(program_invocation_short_name);
  name.append(" ").append(std::to_string(::getpid()));
  return name.substr(0, kNameBytesMax);
}

void check_options(const SessionOptions& options) {
  if (options.ttl <= Duration::zero() || options.ttl > kTtlMax) {
    throw InvalidArgument("a session with a ttl of " + std::to_string(options.ttl.count()) +
                          " ns was asked for; give more than zero and at most a day");
  }
  if (options.name.size() > kNameBytesMax) {
    throw InvalidArgument("the name of a session has " + std::to_string(options.name.size()) +
                          " bytes; give at most " + std::to_string(kNameBytesMax));
  }
}

detail::SessionFacts facts_of(const SessionOptions& options) {
  return {options.name.empty() ? default_name() : std::string(options.name), host_name(),
          static_cast<std::uint32_t>(::getpid()), options.ttl};
}

Task<std::shared_ptr<detail::Heartbeat>> begin(Store& store, detail::SessionFacts facts,
                                               detail::SessionRandom random) {
  detail::Heartbeat::Begun begun = co_await detail::begin_session(store, facts, random);
  co_return std::make_shared<detail::Heartbeat>(store, std::move(facts), std::move(random),
                                                std::move(begun));
}

/// All rows of sessions.
Task<std::vector<Entry>> session_rows(Store& store) {
  std::vector<Entry> rows;
  Page page;
  do {
    const std::string after = rows.empty() ? std::string() : rows.back().key;
    page = co_await store.scan(detail::kSessionPrefix, {.after = after});
    rows.insert(rows.end(), std::make_move_iterator(page.entries.begin()),
                std::make_move_iterator(page.entries.end()));
  } while (page.more);
  co_return rows;
}

/// Those that have expired, and why the first that cannot be read cannot.
struct Expired {
  std::vector<Entry> rows;
  std::exception_ptr fault;
};

Expired expired_of(std::vector<Entry> rows, StoreTime now) {
  Expired expired;
  for (Entry& row : rows) {
    try {
      if (!detail::read_session(row, now).live) {
        expired.rows.push_back(std::move(row));
      }
    } catch (const Error&) {
      expired.fault = expired.fault ? expired.fault : std::current_exception();
    }
  }
  return expired;
}

}  // namespace

Task<std::unique_ptr<Session>> Session::open(Store& store, const SessionOptions& options) {
  check_options(options);
  require_capabilities(store, {.atomic = true}, "a session");
  return start(begin(store, facts_of(options), detail::SessionRandom(options.seed)),
               options.executor);
}

Task<std::unique_ptr<Session>> Session::start(Task<std::shared_ptr<detail::Heartbeat>> begun,
                                              Executor* executor) {
  std::shared_ptr<detail::Heartbeat> heartbeat = co_await begun;
  co_return std::unique_ptr<Session>(new Session(std::move(heartbeat), executor));
}

Session::Session(std::shared_ptr<detail::Heartbeat> heartbeat, Executor* executor)
    : heartbeat_(std::move(heartbeat)) {
  if (executor == nullptr) {
    own_threads_ = std::make_unique<ThreadPool>(kOwnThreads, heartbeat_->store().clock());
    executor = own_threads_.get();
  }
  beating_.emplace(
      spawn(*executor, detail::Heartbeat::beat(heartbeat_), {.name = "session heartbeat"}));
  watching_.emplace(
      spawn(*executor, detail::Heartbeat::watch(heartbeat_), {.name = "session deadlines"}));
}

Session::~Session() { end_heartbeat(); }

void Session::end_heartbeat() {
  heartbeat_->life().lose(SessionLoss::kClosed, "it was closed");
  for (std::optional<Spawned<void>>* task : {&beating_, &watching_}) {
    if (*task) {
      (*task)->request_stop();
    }
  }
}

Store& Session::store() const noexcept { return heartbeat_->store(); }
const std::string& Session::id() const noexcept { return heartbeat_->id(); }
const std::string& Session::name() const noexcept { return heartbeat_->name(); }
const std::string& Session::key() const noexcept { return heartbeat_->key(); }
Version Session::version() const { return heartbeat_->life().version(); }
SessionState Session::state() const { return heartbeat_->life().state(); }
std::optional<SessionLoss> Session::loss() const { return heartbeat_->life().loss(); }
TimePoint Session::valid_until() const { return heartbeat_->life().valid_until(); }
bool Session::valid(TimePoint now) const { return heartbeat_->life().valid(now); }
bool Session::valid() const { return valid(heartbeat_->store().clock().now()); }
std::stop_token Session::lost_token() const { return heartbeat_->life().lost_token(); }
std::stop_token Session::at_risk_token() const { return heartbeat_->life().at_risk_token(); }

void Session::check_alive() const {
  if (state() == SessionState::kLost) {
    throw SessionLost("the session " + detail::printable(name()) + " (" + id() +
                      ") is over: " + heartbeat_->life().why());
  }
}

Task<CommitOutcome> Session::commit(Batch batch) {
  check_alive();
  return detail::Heartbeat::commit(heartbeat_, std::move(batch));
}

Task<void> Session::close() {
  end_heartbeat();
  return erase_row();
}

Task<void> Session::erase_row() {
  if (beating_) {
    Spawned<void>& beating = *beating_;  // g++ 12 would copy *beating_ inside a co_await.
    co_await beating;
    beating_.reset();
  }
  if (watching_) {
    Spawned<void>& watching = *watching_;
    co_await watching;
    watching_.reset();
  }
  if (!erased_) {
    co_await detail::Heartbeat::erase(heartbeat_);
    erased_ = true;
  }
}

Task<std::vector<SessionInfo>> list_sessions(Store& store) {
  const std::vector<Entry> rows = co_await session_rows(store);
  const StoreTime now = co_await store.time();
  std::vector<SessionInfo> sessions;
  sessions.reserve(rows.size());
  for (const Entry& row : rows) {
    sessions.push_back(detail::read_session(row, now));
  }
  co_return sessions;
}

Task<std::size_t> bury_expired(Store& store) {
  std::vector<Entry> rows = co_await session_rows(store);
  const StoreTime now = co_await store.time();
  const Expired expired = expired_of(std::move(rows), now);
  std::size_t buried = 0;
  for (const Entry& row : expired.rows) {
    // One by one: a conflict, because another process was quicker, is about this one alone.
    Batch batch;
    detail::bury(batch, row);
    const CommitOutcome outcome = co_await store.commit(std::move(batch));
    if (outcome.committed() != nullptr) {
      ++buried;
    }
  }
  if (expired.fault) {
    std::rethrow_exception(expired.fault);
  }
  co_return buried;
}

}  // namespace holdfast
