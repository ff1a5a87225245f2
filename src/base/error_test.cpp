// SPDX-License-Identifier: Apache-2.0
#include <holdfast/error.hpp>

#include <gtest/gtest.h>

#include <holdfast/detail/check.hpp>

namespace holdfast {
namespace {

// Numbers are for life: a test that must never need changing.
TEST(Error, CodesKeepTheirNumbersAndRemedies) {
  const std::vector<std::tuple<ErrorCode, int, Remedy>> table{
      {ErrorCode::kInvalidArgument, 100, Remedy::kFixTheCall},
      {ErrorCode::kUnsatisfiable, 101, Remedy::kFixTheCall},
      {ErrorCode::kWrongContext, 102, Remedy::kFixTheCall},
      {ErrorCode::kTaskTooDeep, 103, Remedy::kFixTheCall},
      {ErrorCode::kUnsupported, 104, Remedy::kFixTheCall},
      {ErrorCode::kNotAStore, 105, Remedy::kFixTheCall},
      {ErrorCode::kNewerFormat, 106, Remedy::kFixTheCall},
      {ErrorCode::kNoSuchStore, 107, Remedy::kFixTheCall},
      {ErrorCode::kNoAccess, 108, Remedy::kFixTheCall},
      {ErrorCode::kReentrantMutation, 109, Remedy::kFixTheCall},
      {ErrorCode::kTimedOut, 200, Remedy::kTryAgain},
      {ErrorCode::kQueueFull, 201, Remedy::kTryAgain},
      {ErrorCode::kDropped, 202, Remedy::kTryAgain},
      {ErrorCode::kStoreBusy, 203, Remedy::kTryAgain},
      {ErrorCode::kStoreFull, 204, Remedy::kTryAgain},
      {ErrorCode::kDeadlock, 300, Remedy::kStartOver},
      {ErrorCode::kConcurrentModification, 301, Remedy::kStartOver},
      {ErrorCode::kCancelled, 400, Remedy::kGiveUp},
      {ErrorCode::kClosed, 401, Remedy::kGiveUp},
      {ErrorCode::kStoreCorrupt, 402, Remedy::kGiveUp},
      {ErrorCode::kStoreFailed, 403, Remedy::kGiveUp},
      {ErrorCode::kSessionLost, 404, Remedy::kGiveUp},
      {ErrorCode::kOutcomeUnknown, 500, Remedy::kFindOut},
      {ErrorCode::kMutationTimeout, 501, Remedy::kFindOut},
  };
  for (const auto& [code, number, remedy] : table) {
    EXPECT_EQ(static_cast<int>(code), number);
    EXPECT_EQ(remedy_of(code), remedy);
  }
}

TEST(Error, EveryTypeIsAnErrorWithItsCodeAndText) {
  try {
    throw QueueFull("the queue of Mutex 'a' is full");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kQueueFull);
    EXPECT_EQ(error.remedy(), Remedy::kTryAgain);
    EXPECT_STREQ(error.what(), "the queue of Mutex 'a' is full");
  }
}

TEST(CheckDeathTest, NamesTheConditionTheMessageAndThePlace) {
  const int units = 0;
  EXPECT_DEATH(HOLDFAST_CHECK(units == 1, "the units are gone"),
               "the units are gone(.|\n)*units == 1(.|\n)*error_test.cpp");
}

}  // namespace
}  // namespace holdfast
