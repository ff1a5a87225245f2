// SPDX-License-Identifier: Apache-2.0
#include "transaction.hpp"

#include <string>
#include <utility>

namespace holdfast::detail {

/// Files that are created, and then synced together: few of them one by one, and many with the file
/// system, which takes about as long as three, but is also kept busy by what others write.
class Transaction::Gathered {
 public:
  Gathered(const Files& files, const Layout& layout, std::size_t count)
      : files_(files), folder_(layout.folder()) {
    if (count > kOneByOneMax) {
      directory_ = files_.open_directory(folder_);
    }
  }

  void create(const Files::Path& path, std::string_view text) {
    Descriptor file = files_.create(path, text);
    if (!directory_.is_open()) {
      open_.emplace_back(path, std::move(file));
    }
  }
  void sync() {
    for (const auto& [path, file] : open_) {
      files_.sync(file, path);
    }
    if (directory_.is_open()) {
      files_.sync_file_system(directory_, folder_);
    }
  }

 private:
  static constexpr std::size_t kOneByOneMax = 10;

  const Files& files_;
  const Files::Path folder_;
  Descriptor directory_;
  std::vector<std::pair<Files::Path, Descriptor>> open_;
};

void Transaction::prepare() {
  Gathered gathered(files_, layout_, journal_.changes.size() + 2);
  gathered.create(layout_.new_journal(), to_text(journal_));
  write_entries(gathered);
}

void Transaction::prepare_again() {
  Gathered gathered(files_, layout_, journal_.changes.size() + 2);
  write_entries(gathered);
}

void Transaction::write_entries(Gathered& gathered) {
  gathered.create(layout_.new_store(), to_text(journal_.store));
  for (std::size_t i = 0; i < journal_.changes.size(); ++i) {
    const Journal::Change& change = journal_.changes[i];
    if (change.value) {
      make_folders(layout_.entry(change.key));
      gathered.create(layout_.new_entry(i), entry_text(change.key, *change.value, change.version));
    }
  }
  gathered.sync();
}

/// Now, as a folder needs space, too.
void Transaction::make_folders(const Files::Path& entry) {
  const Files::Path top = layout_.entries();
  std::vector<Files::Path> missing;
  for (Files::Path folder = entry.parent_path(); folder != top; folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    files_.make_directory(*folder);
  }
}

void Transaction::discard() noexcept {
  try {
    files_.unlink(layout_.new_journal());
    files_.unlink(layout_.new_store());
    for (std::size_t i = 0; i < journal_.changes.size(); ++i) {
      files_.unlink(layout_.new_entry(i));
      remove_empty_folders(layout_.entry(journal_.changes[i].key));
    }
  } catch (const FileError&) {
    // It is garbage wherever it stays, and the next one to write in its place does not mind.
  }
}

void Transaction::commit() { files_.rename(layout_.new_journal(), layout_.journal()); }

void Transaction::seal() { files_.sync_directory(layout_.folder()); }

void Transaction::install() {
  // First what is put, as to erase may remove a folder that is empty until then.
  for (std::size_t i = 0; i < journal_.changes.size(); ++i) {
    if (journal_.changes[i].value) {
      put(layout_.new_entry(i), layout_.entry(journal_.changes[i].key));
    }
  }
  for (const Journal::Change& change : journal_.changes) {
    if (!change.value) {
      erase(layout_.entry(change.key));
    }
  }
  for (const Files::Path& folder : touched_) {
    files_.sync_directory(folder);
  }
  files_.rename(layout_.new_store(), layout_.store());
  files_.sync_directory(layout_.folder());
  // That it is gone need not be durable: if it comes back, nothing was committed after it, and to
  // install it again changes nothing.
  files_.unlink(layout_.journal());
}

void Transaction::put(const Files::Path& from, const Files::Path& entry) {
  files_.rename(from, entry);
  for (Files::Path folder = entry.parent_path(); folder != layout_.folder();
       folder = folder.parent_path()) {
    touched_.insert(folder);
  }
}

void Transaction::erase(const Files::Path& entry) {
  files_.unlink(entry);
  remove_empty_folders(entry);
}

void Transaction::remove_empty_folders(const Files::Path& entry) {
  Files::Path folder = entry.parent_path();
  touched_.insert(folder);
  while (folder != layout_.entries() && files_.remove_directory(folder)) {
    folder = folder.parent_path();
    touched_.insert(folder);
  }
}

void replace_record(const Files& files, const Layout& layout, const StoreRecord& record) {
  const Descriptor file = files.create(layout.new_store(), to_text(record));
  files.sync(file, layout.new_store());
  files.rename(layout.new_store(), layout.store());
  files.sync_directory(layout.folder());
}

}  // namespace holdfast::detail
