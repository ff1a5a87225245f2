// SPDX-License-Identifier: Apache-2.0
// The rules of a gate against a plain model: whatever is asked, released, changed or dies, those
// who are alive hold and wait as the model says.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "gate_in_a_table.hpp"

namespace holdfast::detail::testing {
namespace {

constexpr int kSessions = 3;
constexpr int kTtl = 5;

/// One thing that happens. What the numbers mean depends on the kind; each kind takes any.
struct Step {
  enum class Kind : int {
    kAsk,
    kAskOrGo,
    kRelease,
    kLeave,
    kWait,
    kRenew,
    kClose,
    kCapacity,
    kPause,
    kServe
  };
  Kind kind = Kind::kServe;
  int session = 0;
  int number = 0;
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  static constexpr std::array<const char*, 10> kNames{"ask",   "ask or go", "release", "leave",
                                                      "wait",  "renew",     "close",   "capacity",
                                                      "pause", "serve"};
  return out << kNames.at(static_cast<std::size_t>(step.kind)) << "(" << step.session << ", "
             << step.number << ")";
}

/// Who holds and waits, by lists that are searched from the front.
class Model {
 public:
  struct One {
    std::string name;
    int session = 0;
    std::uint64_t weight = 1;
    bool shared = false;
    int priority = 0;
    int ticket = 0;
  };

  explicit Model(const GateDefinition& definition)
      : defined_(static_cast<int>(definition.capacity)),
        read_write_(definition.kind == GateDefinition::Kind::kReadWrite) {
    expires_.assign(kSessions, kTtl);
  }

  [[nodiscard]] int now() const noexcept { return now_; }
  void wait(int time) noexcept { now_ += time; }
  [[nodiscard]] bool alive(int session) const noexcept {
    return expires_.at(static_cast<std::size_t>(session)) > now_;
  }
  int renew(int session) noexcept {
    return expires_.at(static_cast<std::size_t>(session)) = now_ + kTtl;
  }
  int open() {
    expires_.push_back(now_ + kTtl);
    return static_cast<int>(expires_.size()) - 1;
  }
  void close(int session) noexcept { expires_.at(static_cast<std::size_t>(session)) = 0; }
  void set_capacity(int capacity) {
    capacity_override_ = capacity;
    serve();
  }
  void set_paused(bool paused) {
    paused_ = paused;
    serve();
  }

  void ask(One one, bool may_wait) {
    one.ticket = next_ticket_++;
    const std::string name = one.name;
    waiters_.push_back(std::move(one));
    serve();
    if (!may_wait) {
      std::erase_if(waiters_, [&](const One& waiter) { return waiter.name == name; });
      serve();  // By its priority it may have stood before others, who fit.
    }
  }
  void release(const std::string& name) {
    std::erase_if(holders_, [&](const One& holder) { return holder.name == name; });
    serve();
  }
  void leave(const std::string& name) {
    std::erase_if(waiters_, [&](const One& waiter) { return waiter.name == name; });
    serve();
  }

  void serve() {
    const auto dead = [&](const One& one) { return !alive(one.session); };
    std::erase_if(holders_, dead);
    std::erase_if(waiters_, dead);
    std::ranges::sort(waiters_, {}, [](const One& one) {
      return std::tuple(one.ticket - one.priority * static_cast<int>(kGateOvertakesPerStep),
                        one.ticket);
    });
    for (auto waiter = waiters_.begin(); waiter != waiters_.end() && !paused_;) {
      if (fits(*waiter)) {
        holders_.push_back(*waiter);
        waiter = waiters_.erase(waiter);
      } else if (too_heavy(*waiter)) {
        ++waiter;
      } else {
        break;
      }
    }
  }

  [[nodiscard]] std::vector<std::string> holders() const { return living(holders_, true); }
  [[nodiscard]] std::vector<std::string> waiters() const { return living(waiters_, false); }

 private:
  [[nodiscard]] std::uint64_t capacity() const noexcept {
    return static_cast<std::uint64_t>(capacity_override_ != 0 ? capacity_override_ : defined_);
  }
  [[nodiscard]] bool counts(const One& one) const noexcept { return !read_write_ || one.shared; }
  [[nodiscard]] bool too_heavy(const One& one) const noexcept {
    const bool held = read_write_ && std::ranges::any_of(holders_, [](const One& holder) {
                        return !holder.shared;
                      });
    return counts(one) && !held && one.weight > capacity();
  }
  [[nodiscard]] bool fits(const One& one) const noexcept {
    std::uint64_t used = 0;
    bool writer = false;
    for (const One& holder : holders_) {
      used += holder.weight;
      writer = writer || !holder.shared;
    }
    if (read_write_ && (writer || (!one.shared && !holders_.empty()))) {
      return false;
    }
    return !counts(one) || used + one.weight <= capacity();
  }
  [[nodiscard]] std::vector<std::string> living(const std::vector<One>& ones, bool sorted) const {
    std::vector<std::string> names;
    for (const One& one : ones) {
      if (alive(one.session)) {
        names.push_back(one.name);
      }
    }
    if (sorted) {
      std::ranges::sort(names);
    }
    return names;
  }

  int now_ = 0;
  int defined_;
  bool read_write_;
  int capacity_override_ = 0;
  bool paused_ = false;
  int next_ticket_ = 0;
  std::vector<int> expires_;  // When each session ends.
  std::vector<One> holders_;
  std::vector<One> waiters_;
};

/// Does each step to both.
class Pair {
 public:
  explicit Pair(const GateDefinition& definition)
      : read_write_(definition.kind == GateDefinition::Kind::kReadWrite),
        weight_max_(static_cast<int>(definition.capacity)),
        gate_(definition, 1),
        model_(definition) {
    for (int session = 0; session < kSessions; ++session) {
      gate_.live_until(session, kTtl);
    }
  }

  void step(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kAsk:
      case Step::Kind::kAskOrGo:
        ask(step);
        break;
      case Step::Kind::kRelease:
        if (const auto name = pick(model_.holders(), step.number)) {
          gate_.release(key_of(*name), model_.now());
          model_.release(*name);
        }
        break;
      case Step::Kind::kLeave:
        if (const auto name = pick(model_.waiters(), step.number)) {
          gate_.leave(waiter_key_of(*name), model_.now());
          model_.leave(*name);
        }
        break;
      case Step::Kind::kWait:
        model_.wait(1 + step.number % 3);
        break;
      case Step::Kind::kRenew:
        renew(session_of(step));
        break;
      case Step::Kind::kClose:
        gate_.close(session_of(step));
        model_.close(session_of(step));
        break;
      case Step::Kind::kCapacity:
        gate_.set(model_.now(), [&](record::GateHead& head) {
          head.set_capacity_override(static_cast<std::uint64_t>(step.number % 4));
        });
        model_.set_capacity(step.number % 4);
        break;
      case Step::Kind::kPause:
        gate_.set(model_.now(),
                  [&](record::GateHead& head) { head.set_paused(step.number % 2 == 0); });
        model_.set_paused(step.number % 2 == 0);
        break;
      case Step::Kind::kServe:
        static_cast<void>(gate_.serve(model_.now()));
        model_.serve();
        break;
    }
  }

  /// Of those who are alive.
  [[nodiscard]] bool agree() const {
    return holders() == model_.holders() && waiters() == model_.waiters();
  }
  [[nodiscard]] std::string difference() const {
    return text(holders()) + " hold and" + text(waiters()) + " wait; by the model" +
           text(model_.holders()) + " and" + text(model_.waiters());
  }

 private:
  static std::string text(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) {
      all.append(" ").append(name);
    }
    return all;
  }
  static std::optional<std::string> pick(const std::vector<std::string>& names, int number) {
    if (names.empty()) {
      return std::nullopt;
    }
    return names[static_cast<std::size_t>(number) % names.size()];
  }
  [[nodiscard]] bool alive(const std::string& lease_key) const {
    return model_.alive(std::stoi(lease_key.substr(session_key(0).size() - 1)));
  }
  [[nodiscard]] int& session_of(const Step& step) {
    return sessions_.at(static_cast<std::size_t>(step.session));
  }
  /// What has expired is not revived: the process gets a new one.
  void renew(int& session) {
    if (model_.alive(session)) {
      gate_.live_until(session, model_.renew(session));
    } else {
      session = model_.open();
      gate_.live_until(session, model_.now() + kTtl);
    }
  }
  [[nodiscard]] std::vector<std::string> holders() const {
    std::vector<std::string> names;
    const GateRows rows = gate_.rows();
    for (const auto& [key, holder] : rows.holders()) {
      if (alive(holder.request->asker->lease_key)) {
        names.push_back(holder.request->asker->holder);
      }
    }
    std::ranges::sort(names);
    return names;
  }
  [[nodiscard]] std::vector<std::string> waiters() const {
    std::vector<std::string> names;
    const GateRows rows = gate_.rows();
    for (const auto& [key, waiter] : rows.waiters()) {
      if (alive(waiter.request->asker->lease_key)) {
        names.push_back(waiter.request->asker->holder);
      }
    }
    return names;
  }
  [[nodiscard]] std::string key_of(const std::string& name) const {
    const GateRows rows = gate_.rows();
    for (const auto& [key, holder] : rows.holders()) {
      if (holder.request->asker->holder == name) {
        return key;
      }
    }
    return "nowhere";
  }
  [[nodiscard]] std::string waiter_key_of(const std::string& name) const {
    const GateRows rows = gate_.rows();
    for (const auto& [key, waiter] : rows.waiters()) {
      if (waiter.request->asker->holder == name) {
        return key;
      }
    }
    return "nowhere";
  }

  void ask(const Step& step) {
    if (!model_.alive(session_of(step))) {
      renew(session_of(step));
    }
    Model::One one{.name = std::to_string(asked_++), .session = session_of(step)};
    one.shared = read_write_ && step.number % 2 == 0;
    one.weight = read_write_ ? 1 : static_cast<std::uint64_t>(1 + step.number % weight_max_);
    one.priority = step.number % 5 == 0 ? 1 : 0;
    GateRequest asking = request(one.session, one.name);
    asking.weight = one.weight;
    asking.shared = one.shared;
    asking.priority = one.priority;
    const bool may_wait = step.kind == Step::Kind::kAsk;
    asking.queue_max = may_wait ? asking.queue_max : 0;
    static_cast<void>(gate_.ask(asking, model_.now()));
    model_.ask(one, may_wait);
  }

  bool read_write_;
  int weight_max_;
  Gate gate_;
  Model model_;
  std::array<int, kSessions> sessions_{0, 1, 2};  // Which one each process has at present.
  int asked_ = 0;
};

GateDefinition readers_and_writer() {
  GateDefinition definition = permits(2);
  definition.kind = GateDefinition::Kind::kReadWrite;
  return definition;
}

rc::Gen<Step> any_step() {
  return rc::gen::build<Step>(
      rc::gen::set(&Step::kind,
                   rc::gen::map(rc::gen::inRange(0, 10),
                                [](int kind) { return static_cast<Step::Kind>(kind); })),
      rc::gen::set(&Step::session, rc::gen::inRange(0, kSessions)),
      rc::gen::set(&Step::number, rc::gen::inRange(0, 10)));
}

void check_against_model(const GateDefinition& definition) {
  const auto steps = *rc::gen::container<std::vector<Step>>(any_step());
  Pair pair(definition);
  for (const Step& step : steps) {
    pair.step(step);
    if (step.kind == Step::Kind::kWait || step.kind == Step::Kind::kRenew ||
        step.kind == Step::Kind::kClose) {
      continue;  // Nobody has looked at the gate yet.
    }
    if (!pair.agree()) {
      RC_FAIL(pair.difference());
    }
  }
}

RC_GTEST_PROP(GateModel, AMutexDoesAsTheModel, ()) { check_against_model(permits(1)); }
RC_GTEST_PROP(GateModel, ASemaphoreDoesAsTheModel, ()) { check_against_model(permits(3)); }
RC_GTEST_PROP(GateModel, ReadersAndAWriterDoAsTheModel, ()) {
  check_against_model(readers_and_writer());
}

/// All ways in which a few steps can follow each other.
class Everything {
 public:
  Everything(const GateDefinition& definition, std::size_t length)
      : definition_(definition), length_(length) {}

  int run() {
    extend();
    return count_;
  }

 private:
  static constexpr std::array<Step, 9> kSteps{{
      {Step::Kind::kAsk, 0, 1},
      {Step::Kind::kAsk, 1, 2},
      {Step::Kind::kAskOrGo, 1, 1},
      {Step::Kind::kRelease, 0, 0},
      {Step::Kind::kLeave, 0, 0},
      {Step::Kind::kWait, 0, 2},
      {Step::Kind::kRenew, 1, 0},
      {Step::Kind::kClose, 0, 0},
      {Step::Kind::kCapacity, 0, 1},
  }};

  void extend() {
    if (steps_.size() == length_) {
      play();
      return;
    }
    for (const Step& step : kSteps) {
      steps_.push_back(step);
      extend();
      steps_.pop_back();
    }
  }
  void play() {
    ++count_;
    Pair pair(definition_);
    for (const Step& step : steps_) {
      pair.step(step);
    }
    pair.step({Step::Kind::kServe, 0, 0});
    if (!pair.agree()) {
      std::string text;
      for (const Step& step : steps_) {
        text.append(::testing::PrintToString(step)).append(" ");
      }
      ADD_FAILURE() << text << ": " << pair.difference();
    }
  }

  GateDefinition definition_;
  std::size_t length_;
  std::vector<Step> steps_;
  int count_ = 0;
};

TEST(GateModel, AllWaysOfFiveSteps) {
  EXPECT_EQ(Everything(permits(1), 5).run(), 9 * 9 * 9 * 9 * 9);
  EXPECT_EQ(Everything(readers_and_writer(), 5).run(), 9 * 9 * 9 * 9 * 9);
}

}  // namespace
}  // namespace holdfast::detail::testing
