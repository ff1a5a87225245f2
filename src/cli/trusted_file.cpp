// SPDX-License-Identifier: Apache-2.0
#include "trusted_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "config.hpp"

namespace holdfast::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytesMax = std::size_t{64} << 10U;

class File {
 public:
  explicit File(int fd) noexcept : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const fs::path& file, std::string_view why) {
  throw ConfigError(fmt::format("{} is not used: {}", file.string(), why));
}

[[noreturn]] void refuse_unreadable(const fs::path& file, int reason) {
  refuse(file, fmt::format("it cannot be read: {}", std::generic_category().message(reason)));
}

bool is_ours(uid_t owner) { return owner == 0 || owner == geteuid(); }

/// A group of one's own, as many systems give to each user, is no other.
bool others_may_write(const struct stat& status) {
  const bool by_group =
      (status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && status.st_gid != getegid();
  return by_group || (status.st_mode & S_IWOTH) != 0;
}

void check_owner(const fs::path& file, std::string_view what, const struct stat& status) {
  if (!is_ours(status.st_uid)) {
    refuse(file, fmt::format("{} belongs to user {}, who could change what this command does; only "
                             "files of your own or of root are read",
                             what, status.st_uid));
  }
}

void check_file(const fs::path& file, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    refuse(file, "it is no regular file");
  }
  check_owner(file, "it", status);
  if (others_may_write(status)) {
    refuse(file, "other users may write to it; run 'chmod go-w' on it");
  }
}

/// Who may write to the folder can put another file there, unless only owners may take files away.
void check_folder(const fs::path& file, const fs::path& folder) {
  struct stat status{};
  if (stat(folder.c_str(), &status) != 0) {
    refuse_unreadable(file, errno);
  }
  check_owner(file, "its folder", status);
  if (others_may_write(status) && (status.st_mode & S_ISVTX) == 0) {
    refuse(file, "other users may write to its folder; run 'chmod go-w' on that");
  }
}

void check_link(const fs::path& file) {
  struct stat status{};
  if (lstat(file.c_str(), &status) != 0) {
    refuse_unreadable(file, errno);
  }
  if (!S_ISLNK(status.st_mode)) {
    return;
  }
  check_owner(file, "it is a link that", status);
  std::error_code error;
  const fs::path target = fs::canonical(file, error);
  if (error) {
    refuse_unreadable(file, error.value());
  }
  check_folder(file, target.parent_path());
}

std::string read_all(const fs::path& file, int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0) {
      refuse_unreadable(file, errno);
    }
    if (count == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kBytesMax) {
      refuse(file, fmt::format("it has more than {} bytes", kBytesMax));
    }
  }
}

}  // namespace

std::optional<std::string> read_trusted_file(const fs::path& file) {
  // Not to hang if it is a pipe.
  const File opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.fd() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return std::nullopt;
    }
    refuse_unreadable(file, errno);
  }
  struct stat status{};
  if (fstat(opened.fd(), &status) != 0) {
    refuse_unreadable(file, errno);
  }
  check_link(file);
  check_file(file, status);
  check_folder(file, file.parent_path());
  return read_all(file, opened.fd());
}

}  // namespace holdfast::cli
