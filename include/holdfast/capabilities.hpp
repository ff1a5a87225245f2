// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast {

/// How large things may be. A larger one is an `InvalidArgument` that names it, and changes
/// nothing.
struct StoreLimits {
  std::size_t key_bytes_max = 2'048;  ///< An empty key is none.
  std::size_t value_bytes_max = std::size_t{4} << 20;
  std::size_t batch_operations_max = 8'192;  ///< Conditions and writes together.
  std::size_t batch_bytes_max = std::size_t{16} << 20;
};

/// What a store can do; each is stated and true. What is built on a store asks with
/// `require_capabilities`, so that a weaker store is used on purpose or not at all.
struct Capabilities {
  bool durable = false;   ///< What was committed outlives the process and a power cut.
  bool atomic = false;    ///< A batch is applied as a whole or not at all, whatever crashes.
  bool shared = false;    ///< Several processes may have it open.
  bool notifies = false;  ///< A watch wakes without polling, also for changes of other processes.
  bool sql = false;       ///< SQL of the caller can be part of a commit: `Store::transact`.
  StoreLimits limits{};
};

class Store;

/// Throws `Unsupported`, naming `user` and the capability, if the store lacks one of those in
/// `needed`.
void require_capabilities(const Store& store, const Capabilities& needed, std::string_view user);

}  // namespace holdfast
