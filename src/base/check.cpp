// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include <holdfast/detail/check.hpp>

namespace holdfast::detail {

void check_failed(const char* condition, std::string_view message, const char* file,
                  int line) noexcept {
  std::fprintf(stderr, "holdfast: check failed: %.*s\n  (%s) at %s:%d\n",
               static_cast<int>(message.size()), message.data(), condition, file, line);
  std::abort();
}

}  // namespace holdfast::detail
