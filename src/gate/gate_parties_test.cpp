// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/store_error.hpp>

#include "gate_parties.hpp"
#include "gate_records.hpp"

namespace holdfast::detail {
namespace {

std::string row_of(const auto& party) {
  std::string row;
  write_row(party, row);
  return row;
}

GateRequest one_who_says_all() {
  GateRequest request;
  GateAsker asker{
      "the import of today", "the owner", "session/the owner", {"@run/one", "@run/two"}};
  request.asker = shared_asker(std::move(asker));
  request.request_id = "17";
  request.may_hold_others = true;
  request.weight = 3;
  request.shared = true;
  request.priority = -2;
  request.deadline = store_time(5'000);
  request.reason = "because";
  request.notice.emplace(GateRequest::Notice{"a key", "a value", "and what it lost"});
  request.slot_seed = 0;
  return request;
}

GateRequest one_who_says_little() {
  GateRequest request;
  request.asker = shared_asker({.holder = "someone"});
  return request;
}

void expect_same_notice(const GateRequest& read, const GateRequest& written) {
  ASSERT_EQ(read.notice.has_value(), written.notice.has_value());
  if (read.notice) {
    EXPECT_EQ(read.notice->key, written.notice->key);
    EXPECT_EQ(read.notice->value, written.notice->value);
    EXPECT_EQ(read.notice->lost_suffix, written.notice->lost_suffix);
  }
}

void expect_waiter_is_read_as_written(const GateRequest& request) {
  const GateWaiter waiter{.request = std::make_shared<const GateRequest>(request),
                          .asked_at = store_time(1'000),
                          .ticket = 42};
  const GateWaiter read = read_waiter({"gate/a/waiter/1", row_of(waiter), 7});
  EXPECT_EQ(read.asked_at, waiter.asked_at);
  EXPECT_EQ(read.ticket, waiter.ticket);
  EXPECT_EQ(read.request->asker->holder, request.asker->holder);
  EXPECT_EQ(read.request->asker->owner, request.asker->owner);
  EXPECT_EQ(read.request->request_id, request.request_id);
  EXPECT_EQ(read.request->asker->lease_key, request.asker->lease_key);
  EXPECT_EQ(read.request->asker->actors, request.asker->actors);
  EXPECT_EQ(read.request->may_hold_others, request.may_hold_others);
  EXPECT_EQ(read.request->weight, request.weight);
  EXPECT_EQ(read.request->shared, request.shared);
  EXPECT_EQ(read.request->priority, request.priority);
  EXPECT_EQ(read.request->deadline, request.deadline);
  EXPECT_EQ(read.request->reason, request.reason);
  EXPECT_EQ(read.request->slot_seed, request.slot_seed);
  expect_same_notice(*read.request, request);
}

void expect_holder_is_read_as_written(const GateRequest& request,
                                      const std::vector<std::uint64_t>& slots) {
  const GateHolder holder{.request = std::make_shared<const GateRequest>(request),
                          .asked_at = store_time(1'000),
                          .granted_at = store_time(2'000),
                          .slots = slots};
  const GateHolder read = read_holder({"gate/a/holder/1", row_of(holder), 7});
  EXPECT_EQ(read.fence, 7U) << "the version of its row";
  EXPECT_EQ(read.asked_at, holder.asked_at);
  EXPECT_EQ(read.granted_at, holder.granted_at);
  EXPECT_EQ(read.slots, slots);
  EXPECT_EQ(read.request->asker->holder, request.asker->holder);
  EXPECT_EQ(read.request->request_id, request.request_id);
  EXPECT_EQ(read.request->asker->lease_key, request.asker->lease_key);
  EXPECT_EQ(read.request->weight, request.weight);
  EXPECT_EQ(read.request->shared, request.shared);
  EXPECT_EQ(read.request->reason, request.reason);
  const std::size_t actors = request.asker->actors.empty() ? 0 : 1;
  ASSERT_EQ(read.request->asker->actors.size(), actors) << "the first";
  if (actors == 1) {
    EXPECT_EQ(read.request->asker->actors.front(), request.asker->actors.front());
  }
  expect_same_notice(*read.request, request);
}

TEST(GateParties, AreReadAsTheyWereWritten) {
  for (const GateRequest& request :
       {one_who_says_all(), one_who_says_little(), one_who_says_all()}) {
    expect_waiter_is_read_as_written(request);
    const bool says_little = request.asker->actors.empty();
    expect_holder_is_read_as_written(
        request, says_little ? std::vector<std::uint64_t>{} : std::vector<std::uint64_t>{4, 2});
  }
}

/// With fields of any length: how long that of a record is stands before it.
RC_GTEST_PROP(GateParties, AreWrittenAsProtobufWritesThem, ()) {
  const auto text = [] {
    const auto size = *rc::gen::element<std::size_t>(0, 1, 15, 100, 127, 128, 300, 20'000);
    return std::string(size, *rc::gen::inRange('a', 'z'));
  };
  GateRequest request = one_who_says_all();
  request.asker = shared_asker({text(), text(), text(), {text(), text()}});
  request.request_id = text();
  request.reason = text();
  request.weight = *rc::gen::arbitrary<std::uint64_t>();
  request.shared = *rc::gen::arbitrary<bool>();
  request.priority = *rc::gen::arbitrary<int>();
  request.deadline = store_time(*rc::gen::arbitrary<std::int64_t>());
  if (*rc::gen::arbitrary<bool>()) {
    request.slot_seed = *rc::gen::arbitrary<std::uint64_t>();
  } else {
    request.slot_seed.reset();
  }
  request.notice.emplace(GateRequest::Notice{text(), text(), text()});
  const GateWaiter waiter{.request = std::make_shared<const GateRequest>(request),
                          .asked_at = store_time(*rc::gen::arbitrary<std::int64_t>()),
                          .ticket = *rc::gen::arbitrary<std::uint64_t>()};
  const GateHolder holder{.request = waiter.request,
                          .asked_at = waiter.asked_at,
                          .granted_at = store_time(*rc::gen::arbitrary<std::int64_t>()),
                          .slots = *rc::gen::arbitrary<std::vector<std::uint64_t>>()};
  const auto as_protobuf_writes = [](auto record, const std::string& row) {
    RC_ASSERT(record.ParseFromString(row));
    return record.SerializeAsString();
  };
  const std::string waiter_row = row_of(waiter);
  RC_ASSERT(as_protobuf_writes(record::GateWaiter(), waiter_row) == waiter_row);
  const std::string holder_row = row_of(holder);
  RC_ASSERT(as_protobuf_writes(record::GateHolder(), holder_row) == holder_row);
}

TEST(GateParties, ARowIsAddedToWhatIsThere) {
  const GateWaiter waiter{.request = std::make_shared<const GateRequest>(one_who_says_all())};
  std::string rows("before it: ");
  write_row(waiter, rows);
  EXPECT_EQ(rows, "before it: " + row_of(waiter));
}

TEST(GateParties, AHolderWhoIsNotToBeToldOfALossNeedsNoNotice) {
  GateRequest request = one_who_says_all();
  request.notice->lost_suffix.clear();
  const GateHolder holder{.request = std::make_shared<const GateRequest>(std::move(request))};
  EXPECT_FALSE(read_holder({"key", row_of(holder), 1}).request->notice);
}

TEST(GateParties, ThatAreDamagedAreToldAndLeaveNothingBehind) {
  const GateWaiter waiter{.request = std::make_shared<const GateRequest>(one_who_says_all())};
  std::string damaged = row_of(waiter);
  damaged.resize(damaged.size() / 2);
  EXPECT_THROW(static_cast<void>(read_waiter({"gate/a/waiter/1", damaged, 7})), StoreCorrupt);
  EXPECT_THROW(static_cast<void>(read_holder({"gate/a/holder/1", "", 7})), StoreCorrupt);
  expect_waiter_is_read_as_written(one_who_says_little());
}

}  // namespace
}  // namespace holdfast::detail
