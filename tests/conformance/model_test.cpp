// SPDX-License-Identifier: Apache-2.0
// Random batches and reads on two connections, against a map.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"
#include "store_test.hpp"

namespace holdfast::conformance {
namespace {

rc::Gen<Step> any_step() {
  const auto key = rc::gen::inRange(0, int{kKeys.size()});
  const auto act = rc::gen::weightedElement<Act>(
      {{8, Act::kCommit}, {6, Act::kApply}, {4, Act::kGet}, {6, Act::kScan}, {1, Act::kReopen}});
  const auto kind = rc::gen::weightedElement<int>({{6, 0}, {8, 1}, {1, 2}, {4, 3}, {1, 4}});
  const auto condition = rc::gen::build<Condition>(rc::gen::set(&Condition::key, key),
                                                   rc::gen::set(&Condition::kind, kind));
  const auto erase = rc::gen::weightedElement<bool>({{2, false}, {1, true}});
  const auto write =
      rc::gen::build<Write>(rc::gen::set(&Write::key, key), rc::gen::set(&Write::erase, erase),
                            rc::gen::set(&Write::value));
  return rc::gen::build<Step>(
      rc::gen::set(&Step::act, act), rc::gen::set(&Step::connection, rc::gen::inRange(0, 2)),
      rc::gen::set(&Step::conditions,
                   rc::gen::resize(2, rc::gen::container<std::vector<Condition>>(condition))),
      rc::gen::set(&Step::writes,
                   rc::gen::resize(4, rc::gen::container<std::vector<Write>>(write))),
      rc::gen::set(&Step::key, key),
      rc::gen::set(&Step::prefix, rc::gen::inRange(0, int{kPrefixes.size()})),
      rc::gen::set(&Step::limit, rc::gen::inRange(1, 14)));
}

/// Plays steps on two connections, and compares.
template <typename Kind>
class Play {
 public:
  explicit Play(Executor& executor) : executor_(executor) {
    for (auto& client : clients_) {
      client.emplace(executor_, kind_.open());
    }
  }

  void play(const Step& step) {
    const auto index = static_cast<std::size_t>(step.connection);
    const Client& client = *clients_.at(index);
    if (on_its_way_ && index != applied_by_) {
      settle();  // The others see only what is durable.
    }
    const Read read = on_its_way_ ? Read::kApplied : Read::kDurable;
    switch (step.act) {
      case Act::kCommit:
      case Act::kApply:
        write(step, client);
        break;
      case Act::kGet:
        RC_ASSERT(client.get(Model::key_of(step.key), read) == model_.get(step.key));
        break;
      case Act::kScan:
        scan(step, client, read);
        break;
      case Act::kReopen:
        clients_.at(index).reset();
        clients_.at(index).emplace(executor_, kind_.open());
        settle();  // A new connection has applied nothing itself.
        break;
    }
  }
  void compare_all() {
    settle();
    for (const auto& client : clients_) {
      RC_ASSERT(client->scan("").entries == model_.scan("", "", 1'000).entries);
    }
  }

 private:
  void settle() {
    if (on_its_way_) {
      const Client& client = *clients_.at(applied_by_);
      client.run(client->until_durable(*on_its_way_));
      on_its_way_.reset();
    }
  }
  void write(const Step& step, const Client& client) {
    const Batch batch = model_.batch_of(step);
    const CommitOutcome outcome =
        step.act == Act::kCommit ? client.commit(batch) : client.apply(batch);
    const Version version = outcome.committed() != nullptr ? outcome.committed()->version : 0;
    RC_ASSERT(text_of(outcome) == model_.commit(step, version));
    if (version != 0 && !step.writes.empty()) {
      RC_ASSERT(version > last_);
      last_ = version;
    }
    if (step.act == Act::kCommit) {
      on_its_way_.reset();  // And all before it is durable, too.
    } else if (version != 0) {
      on_its_way_ = version;
      applied_by_ = static_cast<std::size_t>(step.connection);
    }
  }
  void scan(const Step& step, const Client& client, Read read) {
    const std::string& prefix = kPrefixes.at(static_cast<std::size_t>(step.prefix));
    const std::string after = step.limit % 2 == 0 ? Model::key_of(step.key) : "";
    const auto limit = static_cast<std::size_t>(step.limit);
    const Page page = client.scan(prefix, {.after = after, .limit = limit, .read = read});
    const Page expected = model_.scan(prefix, after, limit);
    RC_ASSERT(page.entries == expected.entries);
    RC_ASSERT(page.more == expected.more);
  }

  Executor& executor_;
  Kind kind_;
  std::array<std::optional<Client>, 2> clients_;
  Model model_;
  Version last_ = 0;
  std::optional<Version> on_its_way_;
  std::size_t applied_by_ = 0;
};

template <typename Kind>
class AgainstAModel : public StoreTest<Kind> {};
TYPED_TEST_SUITE(AgainstAModel, StoreKinds, StoreKindNames);

TYPED_TEST(AgainstAModel, RandomBatchesAndReadsDoTheSame) {
  EXPECT_TRUE(rc::check("a store does what a map does", [this] {
    const auto steps = *rc::gen::container<std::vector<Step>>(any_step());
    Play<TypeParam> play(this->pool_);
    for (const Step& step : steps) {
      play.play(step);
    }
    play.compare_all();
  }));
}

}  // namespace
}  // namespace holdfast::conformance
