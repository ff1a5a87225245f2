// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace examples {

/// For the stores of a scenario; gone with the object.
class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "holdfast_demo_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "cannot make " + path_);
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string url(std::string_view store) const {
    return "sqlite:" + path_ + "/" + std::string(store);
  }

 private:
  std::string path_;
};

}  // namespace examples
