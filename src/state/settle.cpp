// SPDX-License-Identifier: Apache-2.0
#include "settle.hpp"

#include "envelope.hpp"

namespace holdfast::detail {

Settled settle(const LostWrite& lost, const std::optional<Entry>& now) {
  const bool erases = lost.operation.empty();
  if (!now) {
    // What was to be made may have been, and erased since.
    return erases ? Settled::kHappened : Settled::kUnknown;
  }
  if (lost.base && now->version == lost.base->version) {
    return Settled::kDidNot;
  }
  if (erases) {
    return Settled::kUnknown;
  }
  const Envelope envelope(*now);
  if (envelope.operation() == lost.operation) {
    return Settled::kHappened;
  }
  // Rewritten as it was, such as by a restored backup.
  const bool same = !lost.base_operation.empty() && envelope.operation() == lost.base_operation;
  return same ? Settled::kDidNot : Settled::kUnknown;
}

}  // namespace holdfast::detail
