// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "descriptor.hpp"

namespace holdfast::detail {

/// The whole path in quotes, for a message: it is there to be found.
[[nodiscard]] std::string quoted(const std::filesystem::path& path);

/// What the kernel said no to.
class FileError final : public std::exception {
 public:
  FileError(std::string_view what, const std::filesystem::path& path, int error);

  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  std::string text_;
  int error_;
};

/// For an error before which nothing was changed: throws the `Error` that says so.
[[noreturn]] void throw_unchanged(const FileError& error);
/// For an error after which nobody knows what is on the disk: throws `StoreFailed`.
[[noreturn]] void throw_failed(const FileError& error);

/// All that a file store does with its files, one system call a step, so that a test can make each
/// of them fail, or be the last one. Thread-safe. Throws `FileError`.
class Files {
 public:
  using Path = std::filesystem::path;
  enum class Step : std::uint8_t {
    kRead,
    kList,
    kCreate,
    kWrite,
    kSync,
    kSyncFileSystem,
    kRename,
    kUnlink,
    kMakeDirectory,
    kRemoveDirectory,
    kSyncDirectory,
  };
  /// Asked before each step; the error that the step is to fail with, or 0.
  using Hook = std::function<int(Step step, const Path& path)>;

  explicit Files(Hook hook = {});

  [[nodiscard]] bool exists(const Path& path) const;
  /// Nothing if there is no such file.
  [[nodiscard]] std::optional<std::string> read(const Path& path) const;

  struct Item {
    std::string name;
    bool is_directory;
  };
  /// Without `.` and `..`, in no order.
  [[nodiscard]] std::vector<Item> list(const Path& path) const;

  /// A new file, in the place of one that may be there, with mode 0600. On its way to the disk,
  /// but not durable before `sync`.
  [[nodiscard]] Descriptor create(const Path& path, std::string_view text) const;
  void sync(const Descriptor& file, const Path& path) const;
  /// For many files at once. The directory must have been opened before they were created: it knows
  /// of errors from then on. As a sync of each, but it also waits for what others write.
  [[nodiscard]] Descriptor open_directory(const Path& path) const;
  void sync_file_system(const Descriptor& directory, const Path& path) const;
  /// Puts it in the place of a file that may be there.
  void rename(const Path& from, const Path& to) const;
  /// False if it is not there.
  bool unlink(const Path& path) const;

  /// Mode 0700. False if it is there.
  bool make_directory(const Path& path) const;
  /// False if it is not empty.
  bool remove_directory(const Path& path) const;
  /// Makes durable which names are in it. Nothing if it is not there.
  void sync_directory(const Path& path) const;

 private:
  void step(Step step, const Path& path) const;

  Hook hook_;
};

}  // namespace holdfast::detail
