// SPDX-License-Identifier: Apache-2.0
#include "copying.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <system_error>

#include <holdfast/store_error.hpp>

#include "entry_tree.hpp"
#include "opening.hpp"

namespace holdfast::detail {

namespace {

using Path = std::filesystem::path;

void write(const Files& files, const Path& path, std::string_view text) {
  const Descriptor file = files.create(path, text);
  files.sync(file, path);
}

/// The folders of an entry, made and to be synced.
void make_folders(const Files& files, const Layout& layout, const Path& entry,
                  std::set<Path>& folders) {
  const Path folder = entry.parent_path();
  if (folders.contains(folder)) {
    return;
  }
  if (folder != layout.entries()) {
    make_folders(files, layout, folder, folders);
  }
  files.make_directory(folder);
  folders.insert(folder);
}

void copy_files(const Files& files, const Layout& from, const StoreRecord& record,
                const Layout& to) {
  const EntryTree entries(files, from);
  std::set<Path> folders;
  make_folders(files, to, to.entry("any"), folders);
  entries.for_each_file([&](const std::string&, const std::optional<std::string>& key) {
    const auto stored = key ? entries.find(*key) : std::nullopt;
    if (!stored) {
      return;
    }
    const Path path = to.entry(*key);
    make_folders(files, to, path, folders);
    write(files, path, entry_text(*key, stored->entry.value, stored->entry.version));
  });
  write(files, to.store(), to_text(record));
  for (const Path& folder : folders) {
    files.sync_directory(folder);
  }
  files.sync_directory(to.folder());
}

[[noreturn]] void refuse_copy(const Path& path) {
  throw InvalidArgument("a backup cannot be made at " + quoted(path) +
                        ", as something is there: name a new place");
}

/// Unlike `Files::rename` never in the place of anything.
void rename_to_new(const Files& files, const Path& from, const Path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) {
      refuse_copy(to);
    }
    throw FileError("rename", from, errno);
  }
  files.sync_directory(to.parent_path());
}

}  // namespace

void copy_store(const Files& files, const Layout& from, const StoreRecord& record,
                const Path& given) {
  const Path target = absolute_folder(given);
  Path unfinished = target;
  unfinished += ".tmp";
  if (files.exists(target)) {
    refuse_copy(target);
  }
  if (!files.make_directory(unfinished)) {
    refuse_copy(unfinished);
  }
  try {
    copy_files(files, from, record, Layout(unfinished));
    rename_to_new(files, unfinished, target);
  } catch (...) {
    std::error_code ignored;  // What cannot be removed is in nobody's way.
    std::filesystem::remove_all(unfinished, ignored);
    throw;
  }
}

}  // namespace holdfast::detail
