// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <vector>

#include "documents.hpp"
#include "files.hpp"
#include "layout.hpp"

namespace holdfast::detail {

/// The steps that bring a journal's changes to the disk, for the one who has the turn to write:
/// `prepare`, `commit`, `install`. Throws `FileError`.
class Transaction {
 public:
  Transaction(const Files& files, const Layout& layout, const Journal& journal) noexcept
      : files_(files), layout_(layout), journal_(journal) {}

  /// Writes all that needs space, durably, and in places where nobody looks for it.
  void prepare();
  /// Takes that back.
  void discard() noexcept;
  /// Puts the journal into its place: from now on the transaction is there if `seal` succeeds. An
  /// error changed nothing.
  void commit();
  /// Makes that durable, which is before anything is changed. After an error nobody knows whether
  /// it is.
  void seal();
  /// Changes the entries, durably, and removes the journal. Who dies in the middle leaves the
  /// journal for the next one.
  void install();

  /// For a journal that was found, and sealed: what `prepare` does, without a new journal.
  void prepare_again();

 private:
  class Gathered;
  void write_entries(Gathered& gathered);
  void make_folders(const Files::Path& entry);
  void put(const Files::Path& from, const Files::Path& entry);
  void erase(const Files::Path& entry);
  void remove_empty_folders(const Files::Path& entry);

  const Files& files_;
  const Layout& layout_;
  const Journal& journal_;
  std::set<Files::Path> touched_;  // Folders to sync.
};

/// Writes the record alone, durably: for what is no change of entries.
void replace_record(const Files& files, const Layout& layout, const StoreRecord& record);

}  // namespace holdfast::detail
