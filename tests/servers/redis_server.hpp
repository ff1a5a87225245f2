// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/temp_folder.hpp"
#include "process.hpp"

namespace holdfast::servers {

/// An empty Redis on a port of 127.0.0.1, that keeps all in memory.
class RedisServer {
 public:
  /// `settings` as on the command line: {"--appendonly", "yes"}.
  explicit RedisServer(const std::vector<std::string>& settings = {});

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] Process& process() { return *process_; }

 private:
  testing::TempFolder folder_;
  std::uint16_t port_ = 0;
  std::optional<Process> process_;
};

}  // namespace holdfast::servers
