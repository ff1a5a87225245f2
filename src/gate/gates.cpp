// SPDX-License-Identifier: Apache-2.0
#include <holdfast/gates.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/this_task.hpp>

#include "gate_room.hpp"

namespace holdfast {

namespace detail {

/// The rooms of a session, by the names of their gates.
class GateRooms {
 public:
  GateRooms(Session& session, Executor* executor)
      : session_(session),
        own_thread_(executor == nullptr ? std::make_unique<ThreadPool>(1, session.store().clock())
                                        : nullptr),
        executor_(executor == nullptr ? *own_thread_ : *executor) {}
  GateRooms(const GateRooms&) = delete;
  GateRooms& operator=(const GateRooms&) = delete;
  ~GateRooms() {
    for (const auto& [name, room] : rooms_) {
      if (own_thread_ != nullptr) {
        room->wait_for_duties();
      }
      room->close();
    }
  }

  std::shared_ptr<GateRoom> find_or_make(std::string_view name, const GateDefinition& definition) {
    const std::lock_guard lock(mutex_);
    const auto found = rooms_.find(name);
    if (found == rooms_.end()) {
      auto room = std::make_shared<GateRoom>(session_, executor_, hold_counts_, definition, name);
      return rooms_.emplace(std::string(name), std::move(room)).first->second;
    }
    if (found->second->definition() != definition) {
      throw DefinitionMismatch("'" + std::string(name) +
                               "' was asked for before, in this program, with another definition");
    }
    return found->second;
  }

 private:
  Session& session_;
  const std::shared_ptr<HoldCounts> hold_counts_ = std::make_shared<HoldCounts>();
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GateRoom>, std::less<>> rooms_;
  // Goes first: with it end the tasks that use the rooms.
  std::unique_ptr<ThreadPool> own_thread_;
  Executor& executor_;
};

namespace {

GateRoom::Wish wish(const GateRoom& room, const AcquireOptions& options, bool shared) {
  GateRoom::Wish wish{.options = options,
                      .holder = std::string(options.holder),
                      .reason = std::string(options.reason),
                      .actor = std::string(options.actor),
                      .needed_by = {options.needed_by.begin(), options.needed_by.end()},
                      .shared = shared};
  if (wish.holder.empty()) {
    wish.holder = room.session().name();
  }
  wish.options.holder = {};
  wish.options.reason = {};
  wish.options.actor = {};
  wish.options.needed_by = {};
  return wish;
}

Task<DurableHold> go_in(const std::shared_ptr<GateRoom>& room, const AcquireOptions& options,
                        bool shared) {
  return GateRoom::acquire(room, wish(*room, options, shared));
}

Task<std::optional<DurableHold>> try_to_go_in(const std::shared_ptr<GateRoom>& room,
                                              AcquireOptions options, bool shared) {
  options.timeout = Duration::zero();
  return GateRoom::try_acquire(room, wish(*room, options, shared));
}

/// Options with the texts that they point to.
struct OwnedOptions {
  explicit OwnedOptions(const AcquireOptions& given)
      : options(given),
        holder(given.holder),
        reason(given.reason),
        actor(given.actor),
        needed_by(given.needed_by.begin(), given.needed_by.end()) {
    options.needed_by = {};
  }

  [[nodiscard]] AcquireOptions with(std::uint64_t weight, TimePoint give_up_at) const {
    AcquireOptions with = options;
    with.holder = holder;
    with.reason = reason;
    with.actor = actor;
    with.weight = weight;
    if (options.timeout) {
      with.timeout = std::max(give_up_at - this_task::clock().now(), Duration::zero());
    }
    return with;
  }

  AcquireOptions options;
  std::string holder;
  std::string reason;
  std::string actor;
  std::vector<std::string> needed_by;
};

/// The indices of the requests, in the order in which all take them.
std::vector<std::size_t> order_of(const std::vector<DurableRequest>& requests) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto name_of = [&](std::size_t i) -> const std::string& { return requests[i].name(); };
  std::ranges::sort(order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(order, {}, name_of);
  if (twice != order.end()) {
    throw InvalidArgument("'" + name_of(*twice) +
                          "' is there twice among the locks to take at once");
  }
  return order;
}

Task<std::optional<std::vector<DurableHold>>> take_all(std::vector<DurableRequest> requests,
                                                       OwnedOptions options) {
  const std::vector<std::size_t> order = order_of(requests);
  const TimePoint give_up_at = options.options.timeout
                                   ? this_task::clock().now() + *options.options.timeout
                                   : TimePoint::max();
  std::vector<DurableHold> holds(requests.size());
  for (const std::size_t i : order) {
    const DurableRequest& request = requests[i];
    const AcquireOptions one = options.with(request.weight(), give_up_at);
    GateRoom::Wish one_wish = wish(*request.room(), one, request.shared());
    one_wish.needed_by = options.needed_by;
    std::optional<DurableHold> hold =
        co_await GateRoom::try_acquire(request.room(), std::move(one_wish));
    if (!hold) {
      for (DurableHold& taken : holds) {
        if (taken) {
          static_cast<void>(co_await taken.release());
        }
      }
      co_return std::nullopt;
    }
    holds[i] = *std::move(hold);
  }
  co_return holds;
}

Task<std::vector<DurableHold>> wait_for_all(std::vector<DurableRequest> requests,
                                            OwnedOptions options) {
  std::optional<std::vector<DurableHold>> holds =
      co_await take_all(std::move(requests), std::move(options));
  if (!holds) {
    throw TimedOut("not all of the locks are free, and there is no time left to wait");
  }
  co_return *std::move(holds);
}

}  // namespace

}  // namespace detail

DurableHold& DurableHold::operator=(DurableHold&& other) noexcept {
  if (this != &other) {
    let_go();
    room_ = std::move(other.room_);
    key_ = std::move(other.key_);
    fence_ = other.fence_;
    slots_ = std::move(other.slots_);
    actor_ = other.actor_;
  }
  return *this;
}

DurableHold::~DurableHold() { let_go(); }

void DurableHold::let_go() noexcept {
  if (const auto room = std::exchange(room_, nullptr)) {
    room->forget_hold_of(actor_);
    room->release_in_background(std::move(key_), fence_);
  }
}

Task<bool> DurableHold::release() {
  HOLDFAST_CHECK(room_ != nullptr,
                 "a DurableHold was released that holds nothing: it was released or moved from "
                 "before");
  const bool held = co_await detail::GateRoom::release(room_, key_, fence_);
  room_->forget_hold_of(actor_);
  room_.reset();
  co_return held;
}

const std::string& DurableHold::name() const noexcept { return room_->name(); }
bool DurableHold::valid() const { return room_ != nullptr && room_->session().valid(); }
std::stop_token DurableHold::lost_token() const { return room_->session().lost_token(); }
Batch& DurableHold::guard(Batch& batch) const { return batch.guard(key_, fence_); }
Transaction& DurableHold::guard(Transaction& transaction) const {
  return transaction.guard(key_, fence_);
}

Task<DurableHold> DurableMutex::acquire(const AcquireOptions& options) {
  return detail::go_in(room_, options, false);
}
Task<std::optional<DurableHold>> DurableMutex::try_acquire(const AcquireOptions& options) {
  return detail::try_to_go_in(room_, options, false);
}

Task<DurableHold> DurableSemaphore::acquire(const AcquireOptions& options) {
  return detail::go_in(room_, options, false);
}
Task<std::optional<DurableHold>> DurableSemaphore::try_acquire(const AcquireOptions& options) {
  return detail::try_to_go_in(room_, options, false);
}

Task<DurableHold> DurableSharedMutex::acquire(const AcquireOptions& options) {
  return detail::go_in(room_, options, false);
}
Task<DurableHold> DurableSharedMutex::acquire_shared(const AcquireOptions& options) {
  return detail::go_in(room_, options, true);
}
Task<std::optional<DurableHold>> DurableSharedMutex::try_acquire(const AcquireOptions& options) {
  return detail::try_to_go_in(room_, options, false);
}
Task<std::optional<DurableHold>> DurableSharedMutex::try_acquire_shared(
    const AcquireOptions& options) {
  return detail::try_to_go_in(room_, options, true);
}

LeasedGate DurableMutex::leased() const { return room_->leased(); }
LeasedGate DurableSemaphore::leased() const { return room_->leased(); }
LeasedGate DurableSharedMutex::leased() const { return room_->leased(); }

const std::string& DurableRequest::name() const noexcept { return room_->name(); }

Task<std::vector<DurableHold>> acquire_all(std::vector<DurableRequest> requests,
                                           const AcquireOptions& options) {
  return detail::wait_for_all(std::move(requests), detail::OwnedOptions(options));
}

Task<std::optional<std::vector<DurableHold>>> try_acquire_all(std::vector<DurableRequest> requests,
                                                              const AcquireOptions& options) {
  detail::OwnedOptions at_once(options);
  at_once.options.timeout = Duration::zero();
  return detail::take_all(std::move(requests), std::move(at_once));
}

Gates::Gates(Session& session, Executor* executor)
    : rooms_(std::make_shared<detail::GateRooms>(session, executor)) {
  require_capabilities(session.store(), {.atomic = true, .notifies = true}, "Gates");
}
Gates::~Gates() = default;

DurableMutex Gates::mutex(std::string_view name) {
  return DurableMutex(rooms_->find_or_make(name, {}));
}

DurableSemaphore Gates::semaphore(std::string_view name, std::uint64_t capacity) {
  GateDefinition definition;
  definition.capacity = capacity;
  return gate(name, definition);
}

DurableSharedMutex Gates::shared_mutex(std::string_view name, std::uint64_t readers_max) {
  GateDefinition definition;
  definition.kind = GateDefinition::Kind::kReadWrite;
  definition.capacity = readers_max;
  return DurableSharedMutex(rooms_->find_or_make(name, definition));
}

DurableSemaphore Gates::gate(std::string_view name, const GateDefinition& definition) {
  return DurableSemaphore(rooms_->find_or_make(name, definition));
}

}  // namespace holdfast
