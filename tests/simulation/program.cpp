// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::testing {

namespace {

constexpr int kDepthMax = 3;

class Author {
 public:
  Author(Dice& dice, int& next_label) : dice_(dice), next_label_(next_label) {}

  Program write() {
    Program program;
    program.cleanup = next_label_++;
    const std::uint64_t length = dice_.one_in(3) ? 2 + dice_.below(2) : 1;
    for (std::uint64_t i = 0; i < length; ++i) {
      // A run that goes on as another one has no memory of updates.
      program.chain.push_back(sequence(0, {.signals = true, .updates = length == 1}));
    }
    return program;
  }

 private:
  struct May {
    bool signals = false;
    bool updates = false;
    /// Who holds a lock waits only for greater ones, so that no circle can come about.
    int first_lock = 0;

    /// For a part that nobody talks to.
    [[nodiscard]] May locks_alone() const { return {.first_lock = first_lock}; }
  };

  int number(int least, int most) {
    return least + static_cast<int>(dice_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  Node node(Act act, int first = 0, int second = 0) {
    return {static_cast<int>(act), next_label_++, first, second, {}};
  }

  Node sequence(int depth, May may) {
    Node made = node(Act::kSequence);
    const int count = number(1, 4 - depth);
    for (int i = 0; i < count; ++i) {
      made.parts.push_back(one(depth + 1, may));
      may.updates = may.updates && made.parts.back().what() != Act::kUpdates;
    }
    return made;
  }

  Node one(int depth, May may) {
    switch (dice_.below(19)) {
      case 0:
        return node(Act::kSleep, 1 << number(0, 19));
      case 1:
      case 2:
        return node(Act::kPush, number(0, kCells - 1));
      case 3:
        return may.signals ? node(Act::kSignals, number(0, kSignalNames - 1), number(1, 3))
                           : node(Act::kNever, 1 << number(0, 16));
      case 4:
        return may.updates ? node(Act::kUpdates, 0, number(1, 3)) : node(Act::kSleep, 20);
      case 5:
      case 6:
        return depth < kDepthMax ? child(depth, may) : node(Act::kPush, number(0, kCells - 1));
      case 7:
        return depth < kDepthMax ? several(Act::kAll, depth,
                                           {.signals = may.signals, .first_lock = may.first_lock})
                                 : node(Act::kSleep, 1'000);
      case 8:
        return depth < kDepthMax ? several(Act::kAny, depth, may.locks_alone())
                                 : node(Act::kSleep, 30'000);
      case 9:
      case 10:
        return depth < kDepthMax && may.first_lock < kLocks ? locked(depth, may) : step();
      case 11:
        return depth < kDepthMax ? locked_a_while(depth) : step();
      case 12:
        return depth < kDepthMax && may.first_lock <= kLocks ? permitted(depth, may) : step();
      case 13:
        return node(Act::kCrowd, 1 << number(0, 14), number(2, 6));
      default:
        return step();
    }
  }

  Node locked(int depth, May may) {
    const int lock = number(may.first_lock, kLocks - 1);
    Node made = node(Act::kLocked, lock);
    made.parts.push_back(sequence(depth + 1, {.signals = may.signals, .first_lock = lock + 1}));
    return made;
  }

  /// A permit is greater than all locks. Its lease may end before its part does.
  Node permitted(int depth, May may) {
    Node made = node(Act::kPermitted, dice_.one_in(3) ? number(1, 60) : 1'000'000);
    made.parts.push_back(sequence(depth + 1, {.signals = may.signals, .first_lock = kLocks + 1}));
    return made;
  }

  /// Whichever lock: a circle with a wait that ends is none.
  Node locked_a_while(int depth) {
    Node made = node(Act::kLockedAWhile, number(0, kLocks - 1), 1 << number(0, 16));
    made.parts.push_back(sequence(depth + 1, {.first_lock = kLocks}));
    return made;
  }

  Node step() {
    const bool is_slow = dice_.one_in(2);
    const bool fails = dice_.one_in(4);
    return node(Act::kStep, fails ? number(1, kAttemptsMax) : 0, is_slow ? 1 << number(0, 15) : 0);
  }

  Node several(Act act, int depth, May may) {
    Node made = node(act);
    const int count = number(2, 3);
    for (int i = 0; i < count; ++i) {
      made.parts.push_back(sequence(depth + 1, may));
    }
    return made;
  }

  Node child(int depth, May may) {
    Node made = node(Act::kChild, number(0, 2), dice_.one_in(4) ? 1 : 0);
    Node body = sequence(depth + 1, may.locks_alone());
    if (dice_.one_in(6)) {
      body.parts.push_back(node(Act::kThrow));
    }
    made.parts.push_back(std::move(body));
    return made;
  }

  Dice& dice_;
  int& next_label_;
};

/// Says what comes of a part, with `certain` false for one that may be cut off anywhere.
class Oracle {
 public:
  explicit Oracle(Expected& expected) : expected_(expected) {}

  std::int64_t value_of(const Node& node, bool certain) {
    switch (node.what()) {
      case Act::kSequence:
      case Act::kAll: {
        std::int64_t sum = 0;
        for (const Node& part : node.parts) {
          sum += value_of(part, certain);
        }
        return sum;
      }
      case Act::kAny:
        for (const Node& part : node.parts) {
          static_cast<void>(value_of(part, false));
        }
        return 1;
      case Act::kStep:
        (certain ? expected_.effects : expected_.possible_effects).insert(node.label);
        return node.first >= kAttemptsMax ? -node.label : node.label;
      case Act::kPush:
        (certain ? expected_.pushes : expected_.possible_pushes).insert(node.label);
        return 0;
      case Act::kSignals:
      case Act::kUpdates:
        return value_of_talk(node);
      case Act::kChild:
        return value_of_child(node, certain);
      case Act::kLocked:
        if (node.first < kLocks - 1) {
          (certain ? expected_.pushes : expected_.possible_pushes).insert(node.label);
        }
        return value_of(node.parts.front(), certain);
      case Act::kPermitted:
        return value_of(node.parts.front(), certain);
      case Act::kLockedAWhile:
        static_cast<void>(value_of(node.parts.front(), false));
        return 0;
      case Act::kThrow:
        throws_ = true;
        return 0;
      case Act::kSleep:
      case Act::kNever:
      case Act::kCrowd:
        break;
    }
    return 0;
  }

 private:
  std::int64_t value_of_talk(const Node& node) {
    std::int64_t sum = 0;
    for (int i = 0; i < node.second; ++i) {
      const std::int64_t value = node.label * 10 + i;
      expected_.wanted.push_back({node.what() == Act::kUpdates, node.first, value});
      sum += value;
    }
    return sum;
  }

  std::int64_t value_of_child(const Node& node, bool certain) {
    const bool outer = std::exchange(throws_, false);
    const std::int64_t sum = value_of(node.parts.front(), certain);
    const bool fails = std::exchange(throws_, outer);
    const bool cleans_up = fails && certain;
    (cleans_up ? expected_.effects : expected_.possible_effects).insert(-node.label);
    return fails ? -node.label : sum;
  }

  Expected& expected_;
  bool throws_ = false;
};

}  // namespace

namespace {

bool takes_lock(const Node& node) {
  switch (node.what()) {
    case Act::kLocked:
    case Act::kLockedAWhile:
    case Act::kPermitted:
    case Act::kCrowd:
      return true;
    default:
      return std::ranges::any_of(node.parts, takes_lock);
  }
}

}  // namespace

bool takes_locks(const Program& program) { return std::ranges::any_of(program.chain, takes_lock); }

Program make_program(Dice& dice, int& next_label) { return Author(dice, next_label).write(); }

Expected evaluate(const Program& program) {
  Expected expected;
  Oracle oracle(expected);
  expected.result = program.sum;
  for (const Node& part : program.chain) {
    expected.result += oracle.value_of(part, true);
  }
  expected.possible_effects.insert(program.cleanup);
  return expected;
}

}  // namespace holdfast::testing
