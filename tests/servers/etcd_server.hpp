// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/temp_folder.hpp"
#include "process.hpp"

namespace holdfast::servers {

/// An etcd of one member on ports of 127.0.0.1. It syncs as always, below `parent`.
class EtcdServer {
 public:
  explicit EtcdServer(const std::filesystem::path& parent = std::filesystem::temp_directory_path());

  /// Of clients: gRPC, and JSON over HTTP.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  testing::TempFolder folder_;
  std::uint16_t port_ = 0;
  std::optional<Process> process_;
};

}  // namespace holdfast::servers
