// SPDX-License-Identifier: Apache-2.0
#include "opening.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <holdfast/store_error.hpp>

#include "documents.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

namespace {

using Path = std::filesystem::path;

// With the longest name of an entry a path still fits into the 4,096 bytes that the kernel takes.
constexpr std::size_t kFolderBytesMax = 1'000;

[[noreturn]] void refuse_folder(const Path& folder, int error) {
  const std::string text =
      "the folder " + quoted(folder) + " cannot be used: " + std::generic_category().message(error);
  switch (error) {
    case ENOENT:
      throw InvalidArgument(text + ". Make the folder that it is in first");
    case ENOSPC:
    case EDQUOT:
      throw StoreFull(text + ". Free some space, then try again");
    case EROFS:
      throw NoAccess(text + ". Choose one on a file system that can be written to");
    case EACCES:
    case EPERM:
      throw NoAccess(text + ". Choose one that this user may read and write");
    default:
      throw InvalidArgument(text + ". Choose another");
  }
}

void make_missing_folder(const Files& files, const Path& folder) {
  try {
    if (!files.exists(folder)) {
      files.make_directory(folder);
      files.sync_directory(folder.parent_path());
    }
  } catch (const FileError& error) {
    refuse_folder(folder, error.error());
  }
}

void require_folder(const Files& files, const Path& folder) {
  try {
    if (files.exists(folder)) {
      return;
    }
  } catch (const FileError& error) {
    refuse_folder(folder, error.error());
  }
  throw NoSuchStore("there is no store at " + quoted(folder) + ", and none was to be made");
}

void check_rights(const Path& folder) {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0) {
    refuse_folder(folder, errno);
  }
  const std::string name = quoted(folder);
  if (!S_ISDIR(info.st_mode)) {
    throw NotAStore(name + " is no folder, so it is no file store: choose another place");
  }
  if (info.st_uid != ::geteuid()) {
    throw NoAccess("the folder " + name + " belongs to user " + std::to_string(info.st_uid) +
                   ", and this is user " + std::to_string(::geteuid()) +
                   ": run as its owner, or choose a folder of your own");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw InvalidArgument("others than its owner may write to the folder " + name +
                          ": chmod 700 it");
  }
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    refuse_folder(folder, errno);
  }
}

/// Without `store.json`: nothing, or what a process left that died while it made the store.
void check_contents(const Files& files, const Layout& layout) {
  static constexpr std::array kFirst{Layout::kSidecar, Layout::kReadersLock, Layout::kNewStore,
                                     Layout::kNewEntries};
  const std::string name = quoted(layout.folder());
  bool corrupt = false;
  for (const Files::Item& item : files.list(layout.folder())) {
    if (item.name == Layout::kEntries && item.is_directory) {
      corrupt = corrupt || !files.list(layout.entries()).empty();
    } else if (item.name == Layout::kJournal || item.name == Layout::kNewJournal) {
      corrupt = true;
    } else if (std::find(kFirst.begin(), kFirst.end(), item.name) == kFirst.end()) {
      throw NotAStore("the folder " + name + " has other things in it, such as " +
                      printable(item.name) + ", and no " + std::string(Layout::kStore) +
                      ": it is no file store. Choose an empty one");
    }
  }
  if (corrupt) {
    throw StoreCorrupt("the file " + quoted(layout.store()) +
                       " is gone, and others of the store are there. Restore a backup");
  }
}

/// False if there is none.
bool check_record(const Files& files, const Layout& layout) {
  const auto text = files.read(layout.store());
  if (text) {
    static_cast<void>(to_store_record(*text, layout.store()));
  }
  return text.has_value();
}

void check_new_folder(const Files& files, const Layout& layout) {
  try {
    check_contents(files, layout);
  } catch (const Error&) {
    // Another process may have made the store since it was looked for, and filled it.
    if (!check_record(files, layout)) {
      throw;
    }
  }
}

}  // namespace

Path absolute_folder(const Path& given) {
  if (given.empty()) {
    throw InvalidArgument("the name of a folder is empty; give it one");
  }
  Path folder = std::filesystem::absolute(given).lexically_normal();
  if (!folder.has_filename()) {
    folder = folder.parent_path();
  }
  if (folder.native().size() > kFolderBytesMax) {
    throw InvalidArgument("the path of the folder " + printable(folder.native()) + " has " +
                          std::to_string(folder.native().size()) + " bytes, and a file store " +
                          "takes up to " + std::to_string(kFolderBytesMax) +
                          ": choose a shorter one");
  }
  return folder;
}

Layout open_folder(const Files& files, const Path& given, bool create) {
  Layout layout(absolute_folder(given));
  try {
    if (create) {
      make_missing_folder(files, layout.folder());
    } else {
      require_folder(files, layout.folder());
    }
    check_rights(layout.folder());
    if (!check_record(files, layout)) {
      check_new_folder(files, layout);
      if (!create && !check_record(files, layout)) {
        throw NoSuchStore("no store was made in " + quoted(layout.folder()) + " yet");
      }
    }
  } catch (const FileError& error) {
    throw_unchanged(error);
  }
  return layout;
}

}  // namespace holdfast::detail
