// SPDX-License-Identifier: Apache-2.0
#include "own_store.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fmt/core.h>
#include <holdfast/store_error.hpp>

#include "args.hpp"

namespace holdfast::cli {

namespace {

constexpr mode_t kOnlyForUs = 0700;

/// An absolute path, or nothing.
std::filesystem::path path_in_environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it here.
  const std::filesystem::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path : std::filesystem::path{};
}

void make_private_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), kOnlyForUs) == 0 || errno == EEXIST) {
    return;
  }
  const int reason = errno;
  const std::string text = fmt::format("the folder {} cannot be made: {}", folder.string(),
                                       std::generic_category().message(reason));
  if (reason == EACCES || reason == EPERM || reason == EROFS) {
    throw NoAccess(text);
  }
  throw StoreFailed(text);
}

}  // namespace

std::filesystem::path own_store_path() {
  std::filesystem::path state = path_in_environment("XDG_STATE_HOME");
  if (state.empty()) {
    const std::filesystem::path home = path_in_environment("HOME");
    if (home.empty()) {
      throw UsageError("which store? HOME is not set; give '--store URL' or set HOLDFAST_STORE");
    }
    state = home / ".local" / "state";
  }
  return state / "holdfast" / "locks.db";
}

std::string own_store_url(bool make) {
  const std::filesystem::path path = own_store_path();
  if (make) {
    make_private_folder(path.parent_path());
  }
  std::string url = "sqlite:";
  for (const char byte : path.string()) {
    url += byte == '%' ? "%25" : byte == '?' ? "%3F" : std::string(1, byte);
  }
  return url;
}

}  // namespace holdfast::cli
