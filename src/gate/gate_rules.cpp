// SPDX-License-Identifier: Apache-2.0
#include "gate_rules.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include <holdfast/error.hpp>

namespace holdfast::detail {

namespace {

/// Joining with + makes g++ 12 warn of what cannot happen.
std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text.append(part);
  }
  return text;
}

GateUsage usage_of(const GateRows& rows) noexcept {
  GateUsage usage;
  for (const auto& [key, holder] : rows.holders()) {
    usage.add(holder.request->weight, holder.request->shared);
  }
  return usage;
}

bool is_read_write(const record::GateHead& head) noexcept {
  return head.definition().kind() == record::GateDefinition::READ_WRITE;
}

/// The number of its slots, those included that are disabled.
std::uint64_t all_slots(const record::GateHead& head) noexcept {
  return head.capacity_override() != 0 ? head.capacity_override() : head.definition().capacity();
}

/// How far apart grants are at the gate's rate; zero: it has none.
Duration interval_of(const record::GateHead& head) noexcept {
  const auto& definition = head.definition();
  return definition.rate_count() == 0
             ? Duration::zero()
             : Duration(definition.rate_period_ns() /
                        static_cast<std::int64_t>(definition.rate_count()));
}

/// When the rate allows the next grant: a bucket that holds as many as come in a period. The head
/// keeps the moment from which on it is full.
std::optional<StoreTime> rate_allows_at(const record::GateHead& head) noexcept {
  const Duration interval = interval_of(head);
  if (interval == Duration::zero()) {
    return std::nullopt;
  }
  return store_time(head.rate_full_at_ns()) - Duration(head.definition().rate_period_ns()) +
         interval;
}

void spend_rate(GateRows& rows, StoreTime now) {
  const Duration interval = interval_of(rows.head());
  if (interval != Duration::zero()) {
    const StoreTime full_at = std::max(store_time(rows.head().rate_full_at_ns()), now) + interval;
    rows.change_head().set_rate_full_at_ns(full_at.time_since_epoch().count());
  }
}

/// Those that nobody can be given, in their order.
std::set<std::uint64_t> slots_in_use(const GateRows& rows) {
  const auto& disabled = rows.head().disabled_slots();
  std::set<std::uint64_t> slots(disabled.begin(), disabled.end());
  for (const auto& [key, holder] : rows.holders()) {
    slots.insert(holder.slots.begin(), holder.slots.end());
  }
  return slots;
}

std::vector<std::uint64_t> lowest_free_slots(const GateRows& rows, std::uint64_t count) {
  const std::set<std::uint64_t> in_use = slots_in_use(rows);
  std::vector<std::uint64_t> slots;
  for (std::uint64_t slot = 0; slots.size() < count; ++slot) {
    if (!in_use.contains(slot)) {
      slots.push_back(slot);
    }
  }
  return slots;
}

/// The free one that has so many free ones below it.
std::uint64_t free_slot_above(const std::set<std::uint64_t>& in_use, std::uint64_t free_below) {
  std::uint64_t slot = free_below;
  for (const std::uint64_t used : in_use) {
    if (used > slot) {
      break;
    }
    ++slot;
  }
  return slot;
}

/// Each of the free ones is as likely as the others. There are enough: whoever asks for more than
/// is left of the capacity is not let in.
std::vector<std::uint64_t> any_free_slots(const GateRows& rows, std::uint64_t count,
                                          std::uint64_t seed) {
  std::set<std::uint64_t> in_use = slots_in_use(rows);
  in_use.erase(in_use.lower_bound(all_slots(rows.head())), in_use.end());
  std::vector<std::uint64_t> slots;
  while (slots.size() < count) {
    const std::uint64_t free = all_slots(rows.head()) - in_use.size();
    slots.push_back(free_slot_above(in_use, seed % free));
    in_use.insert(slots.back());
    seed /= free;
  }
  return slots;
}

std::vector<std::uint64_t> slots_for(const GateRequest& request, const GateRows& rows) {
  return request.slot_seed ? any_free_slots(rows, request.weight, *request.slot_seed)
                           : lowest_free_slots(rows, request.weight);
}

void note_earlier(std::optional<StoreTime>& first, StoreTime other) {
  first = first ? std::min(*first, other) : other;
}

/// Serves one gate, for one change of it.
class Serving {
 public:
  Serving(GateRows& rows, KnownLeases& leases, StoreTime now)
      : rows_(rows), leases_(leases), now_(now) {}

  /// Lets in who can be.
  void run() {
    auto next = rows_.waiters().begin();
    while (next != rows_.waiters().end()) {
      const auto& [key, waiter] = *next;
      ++next;
      switch (consider(key, *waiter.request)) {
        case Verdict::kNext:
          break;
        case Verdict::kLast:
          return;
      }
    }
    served_.needs_more_waiters = rows_.has_more_waiters();
  }

  /// What all of it came to.
  [[nodiscard]] Served take() { return std::move(served_); }

  /// Whether one who is there for the first time may go in, now that all others were served.
  [[nodiscard]] std::optional<WhyNot> refusal(std::uint64_t weight, bool shared) {
    auto why = why_not(rows_, weight, shared, now_);
    const bool is_held =
        why && (why->kind == WhyNot::Kind::kFull || why->kind == WhyNot::Kind::kHeld);
    if (is_held && end_dead_holders()) {
      why = why_not(rows_, weight, shared, now_);
    }
    return why;
  }

  /// Whoever asks sees what comes of it, and needs no notice.
  void is_asked_by(SharedRequest request) { asking_ = std::move(request); }

  void admit(GateWaiter waiter, const std::string& holder_key) {
    GateHolder holder;
    if (!is_read_write(rows_.head())) {
      holder.slots = slots_for(*waiter.request, rows_);
    }
    holder.request = std::move(waiter.request);
    holder.asked_at = waiter.asked_at;
    holder.granted_at = now_;
    rows_.grant(holder_key, std::move(holder));
    spend_rate(rows_, now_);
  }

 private:
  enum class Verdict : std::uint8_t { kNext, kLast };

  Verdict consider(const std::string& waiter_key, const GateRequest& request) {
    const KnownLeases::Lease* lease = leases_.find(request.asker->lease_key);
    if (lease == nullptr) {
      return Verdict::kLast;
    }
    const bool too_late = request.deadline != StoreTime{} && request.deadline <= now_;
    if (too_late || lease->liveness != Liveness::kLive) {
      bury_if_expired(request.asker->lease_key, *lease);
      rows_.leave(waiter_key);
      return Verdict::kNext;
    }
    if (const auto why = refusal(request.weight, request.shared)) {
      if (why->until) {
        note_earlier(served_.look_again_at, *why->until);
      }
      note_end_of(*lease);
      // It does not keep those from going in who can, as it may never be able to.
      return why->kind == WhyNot::Kind::kTooHeavy ? Verdict::kNext : Verdict::kLast;
    }
    if (!lease->own) {
      // A session that ends in this very moment would not let go.
      rows_.batch().require_version(request.asker->lease_key, lease->version);
    }
    GateWaiter waiter = rows_.leave(waiter_key);
    Admitted& admitted = served_.admitted.emplace_back();
    admitted.holder_key = rows_.keys().holder(request.asker->owner, request.request_id);
    admitted.request = waiter.request;
    if (request.notice && admitted.request != asking_) {
      rows_.batch().put_new(request.notice->key, request.notice->value);
      admitted.has_notice = true;
    }
    admit(std::move(waiter), admitted.holder_key);
    return Verdict::kNext;
  }

  bool end_dead_holders() {
    std::vector<std::pair<std::string, record::GateGrant::End>> dead;
    for (const auto& [key, holder] : rows_.holders()) {
      const KnownLeases::Lease* lease = leases_.find(holder.request->asker->lease_key);
      if (lease == nullptr) {
        continue;
      }
      switch (lease->liveness) {
        case Liveness::kLive:
          note_end_of(*lease);
          break;
        case Liveness::kExpired:
          bury_if_expired(holder.request->asker->lease_key, *lease);
          dead.emplace_back(key, record::GateGrant::EXPIRED);
          break;
        case Liveness::kGone:
          dead.emplace_back(key, record::GateGrant::ABANDONED);
          break;
      }
    }
    for (const auto& [key, how] : dead) {
      rows_.end(key, how, now_);
    }
    return !dead.empty();
  }

  void note_end_of(const KnownLeases::Lease& lease) {
    if (!lease.own) {
      note_earlier(served_.look_again_at, lease.expires_at);
    }
  }

  /// Before anything of it goes to others: so that a renewal that is under way fails.
  void bury_if_expired(const std::string& lease_key, const KnownLeases::Lease& lease) {
    // Not noted among the leases: if this comes to nothing, it has to be done again.
    if (lease.liveness == Liveness::kExpired && buried_.insert(lease_key).second) {
      rows_.batch().require_version(lease_key, lease.version).erase(lease_key);
    }
  }

  GateRows& rows_;
  KnownLeases& leases_;
  const StoreTime now_;
  Served served_;
  std::set<std::string> buried_;
  SharedRequest asking_;
};

}  // namespace

const KnownLeases::Lease* KnownLeases::find(const std::string& key) {
  static constexpr Lease kForGood{.liveness = Liveness::kLive, .own = true};
  if (key.empty()) {
    return &kForGood;
  }
  const auto found = leases_.find(key);
  if (found == leases_.end()) {
    missing_.push_back(key);
    return nullptr;
  }
  return &found->second;
}

void KnownLeases::forget_expired(StoreTime now) {
  std::erase_if(leases_, [&](const auto& known) {
    const Lease& lease = known.second;
    return lease.liveness == Liveness::kLive && !lease.own && lease.expires_at <= now;
  });
}

Duration grants_kept_for(const record::GateHead& head) noexcept {
  return head.grants_kept_ns() == 0 ? kGateGrantsKeptFor : Duration(head.grants_kept_ns());
}

std::uint64_t capacity_of(const record::GateHead& head) noexcept {
  const std::uint64_t capacity = all_slots(head);
  const auto disabled = std::ranges::count_if(head.disabled_slots(),
                                              [&](std::uint64_t slot) { return slot < capacity; });
  return capacity - static_cast<std::uint64_t>(disabled);
}

std::optional<WhyNot> why_not_beside(const GateUsage& usage, const record::GateHead& head,
                                     std::uint64_t weight, bool shared) noexcept {
  const std::uint64_t capacity = capacity_of(head);
  const std::uint64_t free = capacity - std::min(capacity, usage.weight);
  WhyNot why{.kind = WhyNot::Kind::kFull, .wanted = weight, .free = free};
  if (is_read_write(head) && (usage.writer || (!shared && usage.any))) {
    why.kind = WhyNot::Kind::kHeld;
    return why;
  }
  const bool counts = !is_read_write(head) || shared;
  if (counts && weight > capacity) {
    why.kind = WhyNot::Kind::kTooHeavy;
    return why;
  }
  if (counts && weight > free) {
    return why;
  }
  return std::nullopt;
}

std::optional<WhyNot> why_not(const GateRows& rows, std::uint64_t weight, bool shared,
                              StoreTime now) {
  const record::GateHead& head = rows.head();
  if (head.draining() || head.paused()) {
    return WhyNot{.kind = head.draining() ? WhyNot::Kind::kDraining : WhyNot::Kind::kPaused,
                  .wanted = weight};
  }
  if (auto why = why_not_beside(usage_of(rows), head, weight, shared)) {
    return why;
  }
  if (const auto allowed_at = rate_allows_at(head); allowed_at && *allowed_at > now) {
    return WhyNot{.kind = WhyNot::Kind::kRate, .wanted = weight, .until = allowed_at};
  }
  return std::nullopt;
}

std::vector<WhyNot> why_they_wait(const GateRows& rows, StoreTime now) {
  std::vector<WhyNot> reasons;
  bool blocked = false;
  for (const auto& [key, waiter] : rows.waiters()) {
    const std::uint64_t weight = waiter.request->weight;
    const auto why = why_not(rows, weight, waiter.request->shared, now);
    reasons.push_back(why.value_or(
        WhyNot{.kind = blocked ? WhyNot::Kind::kBehind : WhyNot::Kind::kNext, .wanted = weight}));
    blocked = blocked || (why && why->kind != WhyNot::Kind::kTooHeavy);
  }
  return reasons;
}

Served serve(GateRows& rows, KnownLeases& leases, StoreTime now) {
  Serving serving(rows, leases, now);
  serving.run();
  return serving.take();
}

Asked ask(GateRows& rows, KnownLeases& leases, SharedRequest request, StoreTime now) {
  Asked asked;
  asked.holder_key = rows.keys().holder(request->asker->owner, request->request_id);
  const std::string& holder_key = asked.holder_key;
  if (rows.holders().contains(holder_key)) {
    asked.outcome = Asked::Outcome::kHeld;
    asked.key = holder_key;
    return asked;
  }
  Serving serving(rows, leases, now);
  serving.is_asked_by(request);
  if (rows.waiter_count() == 0) {
    asked.why = serving.refusal(request->weight, request->shared);
    if (!asked.why) {
      serving.admit({.request = std::move(request), .asked_at = now}, holder_key);
      asked.outcome = Asked::Outcome::kHeld;
      asked.key = holder_key;
      return asked;
    }
  }
  // Served as the one it comes to be in the queue: others may be gone, or of a lower priority.
  std::string waiter_key = rows.enqueue(request, now);
  serving.run();
  if (rows.holders().contains(holder_key)) {
    asked.served = serving.take();
    std::erase_if(asked.served.admitted,
                  [&](const Admitted& admitted) { return admitted.request == request; });
    asked.outcome = Asked::Outcome::kHeld;
    asked.key = holder_key;
    return asked;
  }
  if (!asked.why) {
    asked.why = why_not(rows, request->weight, request->shared, now)
                    .value_or(WhyNot{.kind = WhyNot::Kind::kBehind, .wanted = request->weight});
  }
  if (rows.head().draining() || rows.waiter_count() > request->queue_max) {
    rows.leave(waiter_key);
    serving.run();  // By its priority it may have stood before others, who fit.
    asked.served = serving.take();
    return asked;
  }
  asked.served = serving.take();
  asked.outcome = Asked::Outcome::kWaits;
  asked.key = std::move(waiter_key);
  return asked;
}

void check_request(const GateRows& rows, const GateRequest& request) {
  const auto& definition = rows.head().definition();
  const std::string& name = rows.keys().name();
  if (request.weight == 0) {
    throw InvalidArgument(joined({"the weight asked of '", name, "' is 0; give at least 1"}));
  }
  if (request.priority < kGatePriorityMin || request.priority > kGatePriorityMax) {
    throw InvalidArgument(joined({"the priority ", std::to_string(request.priority), " at '", name,
                                  "' is not between ", std::to_string(kGatePriorityMin), " and ",
                                  std::to_string(kGatePriorityMax)}));
  }
  if (request.shared && !is_read_write(rows.head())) {
    throw InvalidArgument(
        joined({"'", name, "' has permits, not readers and writers: it cannot be shared"}));
  }
  const std::uint64_t most = std::max(capacity_of(rows.head()), definition.capacity());
  if (!is_read_write(rows.head()) && request.weight > most) {
    throw Unsatisfiable(joined({"'", name, "' has ", std::to_string(most), " permits in all, and ",
                                std::to_string(request.weight), " were asked for"}));
  }
}

// --- Definitions ---------------------------------------------------------------------------------

namespace {

record::GateDefinition record_of(const GateDefinition& definition) {
  record::GateDefinition record;
  record.set_kind(definition.kind == GateDefinition::Kind::kReadWrite
                      ? record::GateDefinition::READ_WRITE
                      : record::GateDefinition::PERMITS);
  record.set_capacity(definition.capacity);
  for (const std::string& name : definition.slot_names) {
    record.add_slot_names(name);
  }
  record.set_rate_count(definition.rate_count);
  record.set_rate_period_ns(definition.rate_period.count());
  return record;
}

std::string text_of(const GateDefinition& definition) {
  std::string text =
      definition.kind == GateDefinition::Kind::kReadWrite ? "readers and a writer" : "permits";
  text.append(", capacity ").append(std::to_string(definition.capacity));
  if (!definition.slot_names.empty()) {
    text.append(", ").append(std::to_string(definition.slot_names.size())).append(" named slots");
  }
  if (definition.rate_count != 0) {
    text.append(", ").append(std::to_string(definition.rate_count)).append(" in ");
    text.append(std::to_string(definition.rate_period.count())).append(" ns");
  }
  return text;
}

}  // namespace

GateDefinition definition_of(const record::GateHead& head) {
  const auto& record = head.definition();
  GateDefinition definition;
  definition.kind = record.kind() == record::GateDefinition::READ_WRITE
                        ? GateDefinition::Kind::kReadWrite
                        : GateDefinition::Kind::kPermits;
  definition.capacity = record.capacity();
  definition.slot_names.assign(record.slot_names().begin(), record.slot_names().end());
  definition.rate_count = record.rate_count();
  definition.rate_period = Duration(record.rate_period_ns());
  return definition;
}

void check_definition(std::string_view name, const GateDefinition& definition) {
  const std::string gate = joined({"'", name, "'"});
  if (definition.capacity == 0 || definition.capacity > kGateCapacityMax) {
    throw InvalidArgument(
        joined({"the capacity of ", gate, " is ", std::to_string(definition.capacity),
                "; give 1 to ", std::to_string(kGateCapacityMax)}));
  }
  if (!definition.slot_names.empty() && definition.slot_names.size() != definition.capacity) {
    throw InvalidArgument(
        joined({gate, " has ", std::to_string(definition.slot_names.size()), " names for ",
                std::to_string(definition.capacity), " slots; give one for each, or none"}));
  }
  const std::set<std::string> names(definition.slot_names.begin(), definition.slot_names.end());
  if (names.size() != definition.slot_names.size()) {
    throw InvalidArgument(joined({"two slots of ", gate, " have the same name"}));
  }
  const Duration::rep period_ns = std::max<Duration::rep>(0, definition.rate_period.count());
  if ((definition.rate_count != 0) != (period_ns != 0) ||
      definition.rate_count > static_cast<std::uint64_t>(period_ns)) {
    throw InvalidArgument(
        joined({"the rate of ", gate, " is ", std::to_string(definition.rate_count), " in ",
                std::to_string(definition.rate_period.count()),
                " ns; give both above zero, at most one in a nanosecond"}));
  }
}

void define(GateRows& rows, const GateDefinition& definition) {
  if (rows.exists() && definition_of(rows.head()) == definition) {
    return;  // It was checked when it was written.
  }
  check_definition(rows.keys().name(), definition);
  if (!rows.exists()) {
    *rows.change_head().mutable_definition() = record_of(definition);
    return;
  }
  throw DefinitionMismatch(
      joined({"'", rows.keys().name(), "' is defined as ", text_of(definition_of(rows.head())),
              ", and here as ", text_of(definition),
              "; say the same everywhere, or give it another name"}));
}

}  // namespace holdfast::detail

namespace holdfast {

std::string to_string(const WhyNot& why) {
  switch (why.kind) {
    case WhyNot::Kind::kFull:
      return detail::joined({"it wants ", std::to_string(why.wanted), ", and ",
                             std::to_string(why.free), why.free == 1 ? " is free" : " are free"});
    case WhyNot::Kind::kHeld:
      return "it is held, and cannot be shared with who holds it";
    case WhyNot::Kind::kBehind:
      return "others came first";
    case WhyNot::Kind::kNext:
      return "it fits, and will be let in as soon as someone looks";
    case WhyNot::Kind::kRate:
      return "its rate allows no more for now";
    case WhyNot::Kind::kPaused:
      return "it is paused";
    case WhyNot::Kind::kDraining:
      return "it is being drained";
    case WhyNot::Kind::kTooHeavy:
      return detail::joined(
          {"it wants ", std::to_string(why.wanted), ", more than there is at present"});
  }
  return "unknown";
}

}  // namespace holdfast
