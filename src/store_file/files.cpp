// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include <holdfast/store_error.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

std::string_view verb_of(Files::Step step) {
  switch (step) {
    case Files::Step::kRead:
      return "read";
    case Files::Step::kList:
      return "list";
    case Files::Step::kCreate:
      return "create";
    case Files::Step::kWrite:
      return "write";
    case Files::Step::kSync:
    case Files::Step::kSyncFileSystem:
    case Files::Step::kSyncDirectory:
      return "sync";
    case Files::Step::kRename:
      return "rename";
    case Files::Step::kUnlink:
    case Files::Step::kRemoveDirectory:
      return "remove";
    case Files::Step::kMakeDirectory:
      return "make the folder";
  }
  return "use";
}

template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

Descriptor open_file(const Files::Path& path, int flags) {
  return Descriptor(retried(
      [&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR); }));
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

bool is_directory(const Files::Path& parent, const dirent& item) {
  if (item.d_type != DT_UNKNOWN) {
    return item.d_type == DT_DIR;
  }
  struct stat info{};
  return ::lstat((parent / item.d_name).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::string quoted(const std::filesystem::path& path) {
  return printable(path.native(), path.native().size());
}

FileError::FileError(std::string_view what, const std::filesystem::path& path, int error)
    : text_("cannot " + std::string(what) + " " + quoted(path) + ": " +
            std::generic_category().message(error)),
      error_(error) {}

void throw_unchanged(const FileError& error) {
  const std::string text = error.what();
  switch (error.error()) {
    case ENOSPC:
    case EDQUOT:
      throw StoreFull(text + ". Nothing happened: free some space, then try again");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
      throw StoreBusy(text + ". Nothing happened: raise the limit, or try again later");
    case EACCES:
    case EPERM:
    case EROFS:
      throw NoAccess(text + ". The store needs a folder that this user may write to");
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
      throw StoreCorrupt(
          text + ". Something else is in the place of a file of the store: " + "restore a backup");
    default:
      throw_failed(error);
  }
}

void throw_failed(const FileError& error) { throw StoreFailed(error.what()); }

Files::Files(Hook hook) : hook_(std::move(hook)) {}

void Files::step(Step step, const Path& path) const {
  if (hook_) {
    if (const int error = hook_(step, path); error != 0) {
      throw FileError(verb_of(step), path, error);
    }
  }
}

bool Files::exists(const Path& path) const {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    return true;
  }
  if (errno != ENOENT) {
    throw FileError(verb_of(Step::kRead), path, errno);
  }
  return false;
}

std::optional<std::string> Files::read(const Path& path) const {
  step(Step::kRead, path);
  // Not blocking, so that nobody hangs on a pipe that somebody has put there.
  const Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!file.is_open() && errno == ENOENT) {
    return std::nullopt;
  }
  struct stat info{};
  if (!file.is_open() || ::fstat(file.fd(), &info) != 0) {
    throw FileError(verb_of(Step::kRead), path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    throw FileError(verb_of(Step::kRead), path, EISDIR);
  }
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t count =
        retried([&] { return ::read(file.fd(), text.data() + have, text.size() - have); });
    if (count < 0) {
      throw FileError(verb_of(Step::kRead), path, errno);
    }
    if (count == 0) {
      text.resize(have);
    }
    have += static_cast<std::size_t>(count);
  }
  return text;
}

std::vector<Files::Item> Files::list(const Path& path) const {
  step(Step::kList, path);
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (!directory) {
    throw FileError(verb_of(Step::kList), path, errno);
  }
  std::vector<Item> items;
  for (;;) {
    errno = 0;
    // Each thread has a directory of its own.
    const dirent* const item = ::readdir(directory.get());  // NOLINT(concurrency-mt-unsafe)
    if (item == nullptr) {
      break;
    }
    std::string name = item->d_name;
    if (name != "." && name != "..") {
      items.push_back({std::move(name), is_directory(path, *item)});
    }
  }
  if (errno != 0) {
    throw FileError(verb_of(Step::kList), path, errno);
  }
  return items;
}

Descriptor Files::create(const Path& path, std::string_view text) const {
  step(Step::kCreate, path);
  Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) {
    throw FileError(verb_of(Step::kCreate), path, errno);
  }
  step(Step::kWrite, path);
  while (!text.empty()) {
    const ssize_t count = retried([&] { return ::write(file.fd(), text.data(), text.size()); });
    if (count < 0) {
      throw FileError(verb_of(Step::kWrite), path, errno);
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  // Many files that are on their way together need much less time to sync, one after the other,
  // than if the first sync did not know of the second file yet. Only a hint, so it may fail.
  static_cast<void>(::sync_file_range(file.fd(), 0, 0, SYNC_FILE_RANGE_WRITE));
  return file;
}

void Files::sync(const Descriptor& file, const Path& path) const {
  step(Step::kSync, path);
  // Never again after a failure: the kernel then takes for written what it threw away.
  if (::fsync(file.fd()) != 0) {
    throw FileError(verb_of(Step::kSync), path, errno);
  }
}

Descriptor Files::open_directory(const Path& path) const {
  Descriptor directory = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!directory.is_open()) {
    throw FileError(verb_of(Step::kSyncFileSystem), path, errno);
  }
  return directory;
}

void Files::sync_file_system(const Descriptor& directory, const Path& path) const {
  step(Step::kSyncFileSystem, path);
  if (::syncfs(directory.fd()) != 0) {
    throw FileError(verb_of(Step::kSyncFileSystem), path, errno);
  }
}

void Files::rename(const Path& from, const Path& to) const {
  step(Step::kRename, from);
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw FileError(verb_of(Step::kRename), from, errno);
  }
}

bool Files::unlink(const Path& path) const {
  step(Step::kUnlink, path);
  if (::unlink(path.c_str()) == 0) {
    return true;
  }
  if (errno != ENOENT) {
    throw FileError(verb_of(Step::kUnlink), path, errno);
  }
  return false;
}

bool Files::make_directory(const Path& path) const {
  step(Step::kMakeDirectory, path);
  if (::mkdir(path.c_str(), S_IRWXU) == 0) {
    return true;
  }
  if (errno != EEXIST) {
    throw FileError(verb_of(Step::kMakeDirectory), path, errno);
  }
  return false;
}

bool Files::remove_directory(const Path& path) const {
  step(Step::kRemoveDirectory, path);
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) {
    return true;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) {
    throw FileError(verb_of(Step::kRemoveDirectory), path, errno);
  }
  return false;
}

void Files::sync_directory(const Path& path) const {
  step(Step::kSyncDirectory, path);
  const Descriptor directory = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!directory.is_open() && errno == ENOENT) {
    return;
  }
  if (!directory.is_open() || ::fsync(directory.fd()) != 0) {
    throw FileError(verb_of(Step::kSyncDirectory), path, errno);
  }
}

}  // namespace holdfast::detail
