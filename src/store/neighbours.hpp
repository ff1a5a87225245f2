// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/clock.hpp>

namespace holdfast::detail {

/// What the processes that have one store open tell each other: whose turn it is to write, and what
/// was written. The turn keeps writers apart, so it is as safe as the kernel's file locks; all else
/// is a hint, and a crash may lose it.
class Neighbours {
 public:
  Neighbours() = default;
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  virtual ~Neighbours() = default;

  // The turn, for one thread at a time. Two `Neighbours` in one process exclude each other as well.

  /// Waits until no one else writes, and keeps others from it. False, and no turn, if `until`
  /// (of MonotonicTime) passed first or `interrupt` was called. Whoever waits is served before one
  /// who had the turn and wants it again. A dead process has no turn.
  [[nodiscard]] virtual bool take_turn(TimePoint until) = 0;
  virtual void end_turn() noexcept = 0;
  /// During a turn: someone else waits for it.
  [[nodiscard]] virtual bool turn_wanted() noexcept = 0;

  /// During a turn: whether those before it have left nothing open. One who sets this to false when
  /// its turn begins, and to true when it ends well, is noticed by the next one if it dies in
  /// between. Not after all have gone, or the machine: whoever comes first then knows nothing.
  [[nodiscard]] virtual bool is_settled() const noexcept = 0;
  virtual void set_settled(bool settled) noexcept = 0;

  /// During a turn: nobody else has the store open.
  [[nodiscard]] virtual bool alone() const noexcept = 0;

  // The news.

  /// During a turn, after a commit: tells the others which keys it changed.
  virtual void publish(std::span<const std::string_view> keys) noexcept = 0;

  struct News {
    bool anything = false;  ///< More may have changed than `keys` says.
    std::vector<std::string> keys;
  };
  /// What others have published since the last call, waiting for it until `until`. Nothing if that
  /// passed, or `interrupt` was called. For one thread.
  [[nodiscard]] virtual std::optional<News> wait_for_news(TimePoint until) = 0;

  /// Ends the waits of both kinds, those to come included. From any thread.
  virtual void interrupt() noexcept = 0;

  // The mark: the number of a commit that is known to be on the disk, to notice later that it is
  // gone.

  /// 0 if none is known.
  [[nodiscard]] virtual std::uint64_t durable_mark() const noexcept = 0;
  /// During a turn.
  virtual void set_durable_mark(std::uint64_t version) noexcept = 0;
};

}  // namespace holdfast::detail
