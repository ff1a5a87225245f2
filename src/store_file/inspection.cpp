// SPDX-License-Identifier: Apache-2.0
#include "inspection.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <holdfast/store_error.hpp>

#include "documents.hpp"

namespace holdfast::detail {

namespace {

class Check {
 public:
  Check(const Files& files, const Layout& layout) : files_(files), layout_(layout) {}

  CheckReport run() {
    check_names();
    guarded([&] {
      EntryTree(files_, layout_)
          .for_each_file([&](const std::string& name, const std::optional<std::string>& key) {
            guarded([&] { check_entry(name, key); });
          });
    });
    guarded([&] { check_record(); });
    return std::move(report_);
  }

 private:
  template <class Part>
  void guarded(Part part) {
    try {
      part();
    } catch (const StoreCorrupt& damage) {
      report_.faults.emplace_back(damage.what());
    }
  }

  void fault(const Files::Path& file, const std::string& what) {
    report_.faults.push_back("the file " + quoted(file) + " " + what);
  }

  void check_names() {
    // What is new is garbage, or about to be written at this moment.
    static constexpr std::array kKnown{Layout::kStore,       Layout::kNewStore, Layout::kJournal,
                                       Layout::kNewJournal,  Layout::kEntries,  Layout::kNewEntries,
                                       Layout::kReadersLock, Layout::kSidecar};
    for (const Files::Item& item : files_.list(layout_.folder())) {
      if (std::find(kKnown.begin(), kKnown.end(), item.name) == kKnown.end()) {
        fault(layout_.folder() / item.name, "does not belong to the store");
      }
    }
  }

  void check_entry(const std::string& name, const std::optional<std::string>& key) {
    const Files::Path path = layout_.entries() / name;
    if (!key) {
      fault(path, "has a name that no key has");
      return;
    }
    if (const auto stored = EntryTree(files_, layout_).find(*key)) {
      ++report_.entries;
      digest_ += stored->check;
      version_max_ = std::max(version_max_, stored->entry.version);
    }
  }

  void check_record() {
    const auto text = files_.read(layout_.store());
    if (!text) {
      fault(layout_.store(), "is gone");
      return;
    }
    const StoreRecord record = to_store_record(*text, layout_.store());
    if (record.entries != report_.entries) {
      fault(layout_.store(), "counts " + std::to_string(record.entries) + " entries, and there " +
                                 "are " + std::to_string(report_.entries) + " that can be read");
    } else if (record.digest != digest_) {
      fault(layout_.store(), "has another sum than the entries: some are not those that were " +
                                 std::string("written last"));
    }
    if (record.sequence < version_max_ || record.ceiling < record.sequence) {
      fault(layout_.store(), "has a sequence of " + std::to_string(record.sequence) +
                                 " below a ceiling of " + std::to_string(record.ceiling) +
                                 ", and an entry has version " + std::to_string(version_max_));
    }
  }

  const Files& files_;
  const Layout& layout_;
  CheckReport report_;
  std::uint64_t digest_ = 0;
  Version version_max_ = 0;
};

std::uint64_t bytes_below(const Files::Path& folder) {
  std::uint64_t bytes = 0;
  std::error_code ignored;  // A file may go while it is looked at, and then it does not count.
  for (auto at = std::filesystem::recursive_directory_iterator(folder, ignored);
       at != std::filesystem::recursive_directory_iterator(); at.increment(ignored)) {
    std::error_code gone;
    const std::uint64_t size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    bytes += gone ? 0 : size;
  }
  return bytes;
}

}  // namespace

CheckReport check_files(const Files& files, const Layout& layout) {
  return Check(files, layout).run();
}

StoreStats stats_of_files(const Files& files, const Layout& layout) {
  const auto text = files.read(layout.store());
  const StoreRecord record = to_store_record(text.value_or(""), layout.store());
  return {.entries = record.entries,
          .bytes = bytes_below(layout.folder()),
          .last_version = record.sequence,
          .format = kFileFormat,
          .details = "folder: " + layout.folder().string() +
                     "\nversion ceiling: " + std::to_string(record.ceiling) + "\n"};
}

}  // namespace holdfast::detail
