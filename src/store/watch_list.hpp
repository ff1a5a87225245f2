// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "completion.hpp"

namespace holdfast::detail {

class WatchList;

/// What one `Watch` waits for.
class WatchedPrefix {
 public:
  WatchedPrefix(std::shared_ptr<WatchList> list, std::string prefix);

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  void leave() noexcept;
  /// Something changed.
  void notify() noexcept;
  /// Nothing will change any more: every wait throws `reason`.
  void end(std::exception_ptr reason) noexcept;

  /// Until the next `notify` since this last completed.
  class Changed final : public Completion {
   public:
    explicit Changed(WatchedPrefix& watched) noexcept : watched_(watched) {}
    /// After it was awaited.
    void rethrow() const;

   private:
    friend class WatchedPrefix;
    void begin() override;
    void stop() noexcept override;

    WatchedPrefix& watched_;
    std::exception_ptr error_;
  };

 private:
  /// The waiter, if there is one, which must be completed without the lock.
  Changed* take_waiter() noexcept;

  std::shared_ptr<WatchList> list_;
  std::string prefix_;
  std::mutex mutex_;
  bool changed_ = false;
  std::exception_ptr ended_;
  Changed* waiter_ = nullptr;
};

/// All watches of a store, by their prefixes. Finding those that a key concerns costs one lookup
/// for each length that a prefix has, however many watches there are. While they are few, each is
/// compared with the keys, until one has it.
class WatchList : public std::enable_shared_from_this<WatchList> {
 public:
  [[nodiscard]] std::shared_ptr<WatchedPrefix> add(std::string prefix);
  void remove(const WatchedPrefix& watched) noexcept;

  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// Once each, whose prefix some of the keys have. Those of one prefix had better lie together.
  void notify(std::span<const std::string_view> keys);
  void notify_all();
  void end(const std::exception_ptr& reason) noexcept;

 private:
  using Watchers = std::vector<std::weak_ptr<WatchedPrefix>>;
  using Concerned = std::vector<std::shared_ptr<WatchedPrefix>>;
  static constexpr std::size_t kFewPrefixes = 16;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard says so.
  };

  Concerned all();
  // With the lock.
  void find_among_few(std::span<const std::string_view> keys, Concerned& concerned) const;
  void find_among_many(std::span<const std::string_view> keys, Concerned& concerned) const;

  std::mutex mutex_;
  std::unordered_map<std::string, Watchers, Hash, std::equal_to<>> by_prefix_;
  std::map<std::size_t, std::size_t> prefixes_of_length_;
  std::atomic<std::size_t> count_ = 0;
  std::exception_ptr ended_;
};

}  // namespace holdfast::detail
