// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace holdfast::conformance {

/// A directory of its own, gone with the object.
class TempDir {
 public:
  TempDir() : path_(make()) {}
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static std::filesystem::path make() {
    std::string name = (std::filesystem::temp_directory_path() / "holdfast_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make " + name);
    }
    return name;
  }

  std::filesystem::path path_;
};

}  // namespace holdfast::conformance
