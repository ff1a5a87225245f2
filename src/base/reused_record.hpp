// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace holdfast::detail {

/// An empty record, until this thread asks for the next one of its type. Its own texts, not those
/// of records in it, have kept their memory: to get that for each row takes longer than to fill it.
template <class Record>
[[nodiscard]] Record& reused_record() {
  thread_local Record record;
  record.Clear();
  return record;
}

}  // namespace holdfast::detail
