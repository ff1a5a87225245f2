// SPDX-License-Identifier: Apache-2.0
#include "user.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace holdfast::servers {

std::optional<User> user_to_become(const std::string& name) {
  if (name.empty() || ::geteuid() != 0) {
    return std::nullopt;
  }
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> texts{};
  ::getpwnam_r(name.c_str(), &entry, texts.data(), texts.size(), &found);
  if (found == nullptr) {
    throw std::runtime_error("there is no user '" + name + "' on this machine");
  }
  return User{entry.pw_uid, entry.pw_gid};
}

}  // namespace holdfast::servers
