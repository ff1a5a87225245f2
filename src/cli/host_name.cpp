// SPDX-License-Identifier: Apache-2.0
#include "host_name.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>

namespace holdfast::cli {

std::string host_name() {
  constexpr std::size_t kSizeMax = 64;
  std::array<char, kSizeMax + 1> host{};
  return gethostname(host.data(), kSizeMax) == 0 ? host.data() : "";
}

}  // namespace holdfast::cli
