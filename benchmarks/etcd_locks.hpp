// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::bench {

/// etcd's own locks, by JSON over one HTTP connection that stays open. What goes wrong throws.
class EtcdLocks {
 public:
  /// Of an etcd on 127.0.0.1. All locks hang on one lease of a minute.
  explicit EtcdLocks(std::uint16_t port);
  EtcdLocks(const EtcdLocks&) = delete;
  EtcdLocks& operator=(const EtcdLocks&) = delete;
  ~EtcdLocks();

  /// Returns the key to unlock. `name` in base64.
  std::string lock(const std::string& name);
  void unlock(const std::string& key);

 private:
  /// The body of the answer.
  std::string post(const std::string& path, const std::string& body);
  void read_more();

  int socket_ = -1;
  std::string unread_;
  std::string lease_;
};

}  // namespace holdfast::bench
