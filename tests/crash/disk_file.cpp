// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/disk_file.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::testing {

void DiskFile::write(std::size_t at, std::string_view bytes) {
  apply(seen_, at, bytes);
  changes_.push_back({Change::Kind::kWrite, at, std::string(bytes)});
}

void DiskFile::truncate(std::size_t size) {
  seen_.resize(size);
  changes_.push_back({Change::Kind::kTruncate, size, {}});
}

void DiskFile::sync() {
  for (const Change& change : changes_) {
    apply(durable_, change);
  }
  changes_.clear();
}

void DiskFile::fail_sync(Dice& dice) {
  std::erase_if(changes_, [&dice](const Change&) { return dice.one_in(2); });
}

void DiskFile::crash(Dice& dice) {
  const std::size_t count = changes_.size();
  switch (dice.below(4)) {
    case 0:
      break;
    case 1:
      sync();
      break;
    case 2:
      changes_.resize(dice.below(count + 1));
      if (!changes_.empty() && dice.one_in(2)) {
        const Change last = std::move(changes_.back());
        changes_.pop_back();
        sync();
        tear(durable_, last, dice);
      }
      sync();
      break;
    default:
      keep_some(dice);
      break;
  }
  changes_.clear();
  seen_ = durable_;
}

void DiskFile::keep_some(Dice& dice) {
  if (dice.one_in(2)) {
    for (std::size_t left = changes_.size(); left > 1; --left) {
      std::swap(changes_[left - 1], changes_[dice.below(left)]);
    }
  }
  // Most lost, about half, or most kept: each is where other mistakes show.
  const std::uint64_t tenths = 1 + 4 * dice.below(3);
  for (const Change& change : changes_) {
    if (dice.below(10) >= tenths) {
      continue;
    }
    if (dice.one_in(4)) {
      tear(durable_, change, dice);
    } else {
      apply(durable_, change);
    }
  }
}

void DiskFile::apply(std::string& content, std::size_t at, std::string_view bytes) {
  if (content.size() < at + bytes.size()) {
    content.resize(at + bytes.size());
  }
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(at));
}

void DiskFile::apply(std::string& content, const Change& change) {
  if (change.kind == Change::Kind::kTruncate) {
    content.resize(change.at);
  } else {
    apply(content, change.at, change.bytes);
  }
}

void DiskFile::tear(std::string& content, const Change& change, Dice& dice) {
  if (change.kind == Change::Kind::kTruncate) {
    return apply(content, change);
  }
  const std::string_view bytes = change.bytes;
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t at = change.at + done;
    const std::size_t sector = std::min(kSectorBytes - at % kSectorBytes, bytes.size() - done);
    if (dice.one_in(2)) {
      apply(content, at, bytes.substr(done, sector));
    }
    done += sector;
  }
}

}  // namespace holdfast::testing
