// SPDX-License-Identifier: Apache-2.0
#include "run_payload.hpp"

#include <gtest/gtest.h>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/detail/workflow_code.hpp>
#include <holdfast/run_error.hpp>
#include <holdfast/store_error.hpp>

namespace holdfast::detail {
namespace {

enum class Colour { kRed, kBlue };
BOOST_DESCRIBE_ENUM(Colour, kRed, kBlue)

struct Address {
  std::string zip;
  std::optional<int> floor;
};
BOOST_DESCRIBE_STRUCT(Address, (), (zip, floor))

struct Order {
  std::int16_t id = 0;
  Address address;
  std::vector<Address> others;
  std::map<std::string, double> prices;
  bool paid = false;
  Colour colour = Colour::kRed;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, address, others, prices, paid, colour))

boost::json::value good() {
  return boost::json::value{
      {"id", 1},
      {"address", {{"zip", "x"}, {"floor", 2}}},
      {"others", {{{"zip", "a"}, {"floor", nullptr}}, {{"zip", "b"}, {"floor", 1}}}},
      {"prices", {{"tea", 1.5}}},
      {"paid", true},
      {"colour", "kBlue"}};
}

std::string fault(const boost::json::value& value) {
  try {
    static_cast<void>(from_payload<Order>(value, "input"));
  } catch (const BadPayload& error) {
    const std::string text = error.what();
    const std::string start = "'input' is not of the type that the code wants: ";
    EXPECT_EQ(text.substr(0, start.size()), start);
    return text.substr(start.size());
  }
  return "none";
}

/// The good one, with something else at one place.
std::string fault_with(std::string_view pointer, const boost::json::value& wrong) {
  boost::json::value value = good();
  value.at_pointer(pointer) = wrong;
  return fault(value);
}

TEST(Payloads, OfTheRightTypeAreTaken) { EXPECT_EQ(fault(good()), "none"); }

TEST(Payloads, OfTheWrongTypeNameTheField) {
  EXPECT_EQ(fault_with("/address/zip", 5), "input.address.zip: expected a string, and it is 5");
  EXPECT_EQ(fault_with("/address", nullptr), "input.address: expected an object, and it is null");
  EXPECT_EQ(fault_with("/address/floor", "x"),
            "input.address.floor: expected a whole number, and it is a string");
  EXPECT_EQ(fault_with("/others/1/zip", true),
            "input.others[1].zip: expected a string, and it is true");
  EXPECT_EQ(fault_with("/others", "x"), "input.others: expected a list, and it is a string");
  EXPECT_EQ(fault_with("/prices/tea", "x"),
            "input.prices.tea: expected a number, and it is a string");
  EXPECT_EQ(fault_with("/prices", 1), "input.prices: expected an object, and it is 1");
  EXPECT_EQ(fault_with("/paid", 1), "input.paid: expected true or false, and it is 1");
  EXPECT_EQ(fault_with("/id", 100'000),
            "input.id: expected a whole number that fits, and it is 100000");
  EXPECT_EQ(fault_with("/id", 1.5), "input.id: expected a whole number that fits, and it is 1.5E0");
  EXPECT_EQ(fault_with("/colour", "green").substr(0, 13), "input.colour:");
  EXPECT_EQ(fault("x"), "input: expected an object, and it is a string");
}

TEST(Payloads, WithMissingOrUnknownMembersNameThem) {
  boost::json::value value = good();
  value.at("address").as_object().erase("zip");
  EXPECT_EQ(fault(value), "input.address.zip is missing");
  value = good();
  value.at("address").as_object()["street"] = "x";
  EXPECT_EQ(fault(value), "input.address.street: no such member is known");
}

TEST(Payloads, NeedNotHaveOptionalMembers) {
  boost::json::value value = good();
  value.at("address").as_object().erase("floor");
  value.at_pointer("/others/1").as_object().erase("floor");
  const Order order = from_payload<Order>(value, "input");
  EXPECT_EQ(order.address.floor, std::nullopt);
  EXPECT_EQ(order.others[1].floor, std::nullopt);
  EXPECT_EQ(order.others[1].zip, "b");
}

TEST(Payloads, ThatAreTooLongAreRefused) {
  const boost::json::value fits(std::string(kPayloadBytesMax - 2, 'x'));
  EXPECT_EQ(payload_text(fits, "the result of step 'big'").size(), kPayloadBytesMax);
  const boost::json::value big(std::string(kPayloadBytesMax - 1, 'x'));
  try {
    static_cast<void>(payload_text(big, "the result of step 'big'"));
    ADD_FAILURE() << "it was taken";
  } catch (const BadPayload& error) {
    EXPECT_STREQ(error.what(),
                 "the result of step 'big' has 1048577 bytes as JSON, and 1048576 are the most: "
                 "keep it elsewhere, and give its name");
  }
}

TEST(Payloads, OfNothingAreEmptyAndDamagedOnesAreTold) {
  EXPECT_EQ(payload_text(nullptr, "x"), "");
  EXPECT_EQ(parse_payload(""), nullptr);
  EXPECT_THROW(static_cast<void>(parse_payload("{")), StoreCorrupt);
}

}  // namespace
}  // namespace holdfast::detail
