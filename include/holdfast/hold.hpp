// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <holdfast/detail/check.hpp>
#include <holdfast/detail/turnstile.hpp>

namespace holdfast {

/// What you have while you hold a lock or a permit, and the only thing that can release it: at the
/// end of its scope, or earlier by `release()`.
///
/// It can be moved, to another task or thread as well. It may outlive its lock; then releasing it
/// does nothing.
class [[nodiscard]] Hold {
 public:
  /// Holds nothing.
  Hold() noexcept = default;
  Hold(detail::Turnstile& turnstile, std::uint32_t weight, detail::Holder* holder) noexcept
      : turnstile_(&turnstile), weight_(weight), holder_(holder) {}
  Hold(Hold&& other) noexcept
      : turnstile_(std::exchange(other.turnstile_, nullptr)),
        weight_(other.weight_),
        holder_(other.holder_) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      let_go();
      turnstile_ = std::exchange(other.turnstile_, nullptr);
      weight_ = other.weight_;
      holder_ = other.holder_;
    }
    return *this;
  }
  ~Hold() { let_go(); }

  /// Gives it to the next in line. What holds nothing must not be released: that is a bug.
  void release() noexcept {
    HOLDFAST_CHECK(turnstile_ != nullptr,
                   "a Hold was released that holds nothing: it was released or moved from before");
    let_go();
  }

  [[nodiscard]] explicit operator bool() const noexcept { return turnstile_ != nullptr; }
  [[nodiscard]] std::uint32_t weight() const noexcept { return weight_; }

 private:
  void let_go() noexcept {
    if (turnstile_ != nullptr) {
      std::exchange(turnstile_, nullptr)->leave(weight_, holder_);
    }
  }

  detail::Turnstile* turnstile_ = nullptr;
  std::uint32_t weight_ = 0;
  detail::Holder* holder_ = nullptr;
};

}  // namespace holdfast
