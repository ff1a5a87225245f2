// SPDX-License-Identifier: Apache-2.0
#include "store_copy.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "gate/session_rules.hpp"

namespace holdfast::detail {

namespace {

constexpr int kTriesMax = 20;

Task<std::vector<Entry>> read_all(Store& store) {
  std::vector<Entry> entries;
  Page page;
  do {
    const std::string after = entries.empty() ? std::string() : entries.back().key;
    page = co_await store.scan("", {.after = after});
    entries.insert(entries.end(), std::make_move_iterator(page.entries.begin()),
                   std::make_move_iterator(page.entries.end()));
  } while (page.more);
  co_return entries;
}

}  // namespace

Task<StoreCopy> copy_store(Store& store) {
  for (int i = 0; i < kTriesMax; ++i) {
    const StoreStats before = co_await store.stats();
    StoreCopy copy;
    copy.entries = co_await read_all(store);
    copy.time = co_await store.time();
    const StoreStats after = co_await store.stats();
    if (before.last_version == after.last_version) {
      std::erase_if(copy.entries,
                    [](const Entry& entry) { return entry.key.starts_with(kSessionPrefix); });
      co_return copy;
    }
  }
  throw StoreBusy("the store " + store.url() +
                  " changed each time while it was read: back it up, and copy the backup");
}

}  // namespace holdfast::detail
