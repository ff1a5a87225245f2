// SPDX-License-Identifier: Apache-2.0
// g++ before 13 would destroy what the lambda captured, or what the braces hold, twice. OPERATION
// says which it is.
#include <boost/describe/class.hpp>

#include <string>

#include <holdfast/cell.hpp>

using namespace holdfast;

struct Profile {
  std::string name;
};
BOOST_DESCRIBE_STRUCT(Profile, (), (name))

Task<void> use(Cell<Profile> cell, std::string text) {
  static_cast<void>(text);
#ifdef HOLDFAST_SAMPLE_IS_GOOD
  auto update = cell.update([text](Profile& profile) { profile.name = text; });
  co_await update;
  co_await cell.update([&text](Profile& profile) { profile.name = text; });
  auto set = cell.set(Profile{text});
  co_await set;
  const Profile profile{text};
  co_await cell.set(profile);
#else
  co_await OPERATION;
#endif
}
