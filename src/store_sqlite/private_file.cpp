// SPDX-License-Identifier: Apache-2.0
#include "private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include <holdfast/store_error.hpp>

namespace holdfast::detail {

namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

bool is_denied(int error) noexcept { return error == EACCES || error == EPERM || error == EROFS; }

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

void refuse_path(const std::filesystem::path& path, std::error_code error) {
  const std::string text = path.string() + " cannot be used: " + error.message();
  if (is_denied(error.value())) {
    throw NoAccess(text + "; check the rights of the file and of the folders above it");
  }
  throw InvalidArgument(text);
}

bool create_private_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd >= 0) {
    ::close(fd);
    sync_folder_of(path);
    return true;
  }
  if (errno == EEXIST) {
    return false;
  }
  if (errno == ENOSPC || errno == EDQUOT) {
    throw StoreFull(path.string() + " cannot be made: " + error_text(errno) + "; free some space");
  }
  if (errno == ENOENT) {
    throw InvalidArgument(path.string() + " cannot be made: there is no folder " +
                          folder_of(path).string() + "; make it first");
  }
  if (is_denied(errno)) {
    throw NoAccess(path.string() + " cannot be made: " + error_text(errno) +
                   "; check the rights of " + folder_of(path).string());
  }
  throw InvalidArgument(path.string() + " cannot be made: " + error_text(errno));
}

void check_private_file(const std::filesystem::path& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) {
    refuse_path(path, std::error_code(errno, std::generic_category()));
  }
  if (!S_ISREG(found.st_mode)) {
    throw InvalidArgument(path.string() + " is " +
                          (S_ISDIR(found.st_mode) ? "a folder" : "no regular file") +
                          "; give the path of a file");
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw InvalidArgument(path.string() +
                          " can be written by others than its owner, so anyone could forge what "
                          "is in it; run: chmod 600 " +
                          path.string());
  }
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = folder_of(path);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!synced) {
    throw StoreFailed(folder.string() + " cannot be synced: " + error_text(error));
  }
}

}  // namespace holdfast::detail
