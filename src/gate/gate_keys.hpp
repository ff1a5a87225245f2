// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <holdfast/batch.hpp>

namespace holdfast::detail {

/// Where the rows of a gate are. All lie behind one prefix, so that they are read in one scan.
class GateKeys {
 public:
  /// `InvalidArgument` unless the name has 1 to `kGateNameMax` bytes, none of them a control
  /// character.
  explicit GateKeys(std::string_view name);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }

  [[nodiscard]] std::string head() const { return std::string(prefix_).append(kHead); }
  [[nodiscard]] bool is_head(std::string_view key) const noexcept {
    return key.size() == prefix_.size() + kHead.size() && key.ends_with(kHead) &&
           key.starts_with(prefix_);
  }
  /// The holds of one session lie together: one watch tells it of all its grants.
  [[nodiscard]] std::string holders() const;
  [[nodiscard]] std::string holders_of(std::string_view owner) const;
  [[nodiscard]] std::string holder(std::string_view owner, std::string_view request_id) const;
  /// In the order in which they are served.
  [[nodiscard]] std::string waiters() const;
  [[nodiscard]] std::string waiter(std::uint64_t rank, std::uint64_t ticket) const;
  [[nodiscard]] std::string grants() const;
  [[nodiscard]] std::string grant(std::uint64_t number) const;
  [[nodiscard]] std::string operator_changes() const { return prefix_ + "operator/"; }
  [[nodiscard]] std::string operator_change(std::uint64_t number) const;
  /// What holders and waiters hang on that are no sessions.
  [[nodiscard]] std::string leases() const { return prefix_ + "lease/"; }
  [[nodiscard]] std::string lease(std::string_view holder) const;

 private:
  static constexpr std::string_view kHead = "head";

  std::string name_;
  std::string prefix_;
};

/// `InvalidArgument`, as above.
void check_gate_name(std::string_view name);

inline constexpr std::string_view kGatePrefix = "gate/";
/// `GateKeys::holder` of a gate whose name was checked and whose other keys are not needed.
[[nodiscard]] std::string holder_key(std::string_view gate, std::string_view owner,
                                     std::string_view request_id);

/// Rows for gates at which some wait who do not look after them: that nobody who is dead holds
/// them, and that the rate allows more again. Such a row is written again when there is a new
/// holder who may die.
inline constexpr std::string_view kUnattendedPrefix = "unattended/";
[[nodiscard]] std::string unattended_key(std::string_view gate);
/// Throws `StoreCorrupt` if it is none.
[[nodiscard]] std::string gate_in_unattended_key(std::string_view key);

/// Where it is said for what gate an actor waits. Names that begin with '@' are known beyond the
/// session that the lease is of.
[[nodiscard]] std::string wait_key(std::string_view lease_key, std::string_view actor);

}  // namespace holdfast::detail
