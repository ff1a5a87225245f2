// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace holdfast::servers {

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
};

/// Whom root is to become to run something as `name`. Nothing: we stay who we are, as there is no
/// name, or we are not root.
[[nodiscard]] std::optional<User> user_to_become(const std::string& name);

}  // namespace holdfast::servers
