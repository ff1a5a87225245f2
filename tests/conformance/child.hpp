// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace holdfast::conformance {

/// A process that runs store_child. It says "ready" when it has opened the store, waits to be told
/// to go, and answers with one line. Whatever takes too long throws.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  void until_ready();
  void go() const;
  /// Its answer, after it has ended well.
  std::string answer();

 private:
  [[nodiscard]] std::string read_line();
  void until_ended();

  pid_t pid_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
  std::string read_ahead_;
};

}  // namespace holdfast::conformance
