// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include <holdfast/detail/guarded.hpp>
#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/task.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::detail {

/// What a transaction of a workflow does, with its types taken off.
template <typename Function>
class TransactionCodeOf final : public StepCode {
  static_assert(std::invocable<Function&, Transaction&>,
                "the function of a transaction takes a Transaction&");
  using Returned = UnwrapTask<std::invoke_result_t<Function&, Transaction&>>;
  static_assert(!Returned::kIsTask,
                "the function of a transaction returns a value, no Task: the store waits for it");

 public:
  using Value = typename Returned::Type;
  static_assert(Payload<Value>,
                "a transaction returns nothing, JSON, or what Boost.JSON can convert to it and "
                "back: describe the struct with BOOST_DESCRIBE_STRUCT");

  explicit TransactionCodeOf(Function function) : function_(std::move(function)) {}

  [[nodiscard]] bool blocks() const noexcept override { return false; }
  [[nodiscard]] bool transacts() const noexcept override { return true; }
  [[nodiscard]] Task<boost::json::value> run(StepContext& /*step*/) override {
    refuse_without_transaction();
  }
  [[nodiscard]] boost::json::value transact(Transaction& transaction) override {
    if constexpr (std::is_void_v<Value>) {
      std::invoke(function_, transaction);
      return nullptr;
    } else {
      return to_payload(std::invoke(function_, transaction));
    }
  }

 private:
  Function function_;
};

}  // namespace holdfast::detail
