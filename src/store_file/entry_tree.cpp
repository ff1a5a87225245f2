// SPDX-License-Identifier: Apache-2.0
#include "entry_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <holdfast/store_error.hpp>

#include "file_name.hpp"
#include "store/backend.hpp"
#include "store/printable.hpp"

namespace holdfast::detail {

std::optional<StoredEntry> EntryTree::find(std::string_view key) const {
  const Files::Path path = layout_.entry(key);
  const std::optional<std::string> text = files_.read(path);
  if (!text) {
    return std::nullopt;
  }
  StoredEntry stored = to_entry(*text, path);
  if (stored.entry.key != key) {
    throw StoreCorrupt("the file " + quoted(path) + " has the entry of another key, " +
                       printable(stored.entry.key) + ". Restore a backup");
  }
  return stored;
}

Page EntryTree::scan(std::string_view prefix, std::string_view after, std::size_t limit) const {
  Page page;
  std::size_t bytes = 0;
  for (const std::string& key : keys(prefix, after)) {
    if (page.entries.size() == limit || bytes > kPageBytesMax) {
      page.more = true;
      break;
    }
    std::optional<StoredEntry> stored = find(key);
    if (!stored) {
      throw StoreCorrupt("the file of the key " + printable(key) + " has disappeared from " +
                         quoted(layout_.entries()) + " while it was being read");
    }
    bytes += key.size() + stored->entry.value.size();
    page.entries.push_back(std::move(stored->entry));
  }
  return page;
}

std::vector<std::string> EntryTree::keys(std::string_view prefix, std::string_view after) const {
  std::vector<std::string> keys;
  for_each_file([&](const std::string&, std::optional<std::string> key) {
    if (key && key->starts_with(prefix) && *key > after) {
      keys.push_back(*std::move(key));
    }
  });
  std::sort(keys.begin(), keys.end());
  return keys;
}

void EntryTree::for_each_file(const OnFile& on_file) const { walk("", on_file); }

void EntryTree::walk(const std::string& below, const OnFile& on_file) const {
  for (const Files::Item& item : items(below)) {
    const std::string name = below + item.name;
    if (!item.is_directory) {
      on_file(name, key_of_file_name(name));
    } else if (name.size() < kNameBytesMax) {
      // No entry is deeper than that.
      walk(name + "/", on_file);
    }
  }
}

std::vector<Files::Item> EntryTree::items(const std::string& below) const {
  const Files::Path path = layout_.entries() / below;
  try {
    return files_.list(path);
  } catch (const FileError& error) {
    if (error.error() != ENOENT) {
      throw;
    }
  }
  if (below.empty()) {
    throw StoreCorrupt("the folder " + quoted(path) + " is gone. Restore a backup");
  }
  return {};  // An empty folder, which a writer that failed has removed since it was seen.
}

}  // namespace holdfast::detail
