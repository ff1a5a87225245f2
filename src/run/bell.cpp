// SPDX-License-Identifier: Apache-2.0
#include "bell.hpp"

#include <utility>

#include <holdfast/this_task.hpp>

namespace holdfast::detail {

class Bell::Hearing final : public Completion {
 public:
  Hearing(Bell& bell, std::uint64_t heard) noexcept : bell_(bell), heard_(heard) {}
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;
  ~Hearing() = default;

  [[nodiscard]] bool rung() const noexcept { return rung_; }

 private:
  friend class Bell;

  void begin() override {
    {
      const std::lock_guard lock(bell_.mutex_);
      bell_.is_awaited_ = true;
      if (bell_.count_ <= heard_) {
        enter();
        return;
      }
      bell_.is_awaited_ = bell_.first_ != nullptr;
      rung_ = true;
    }
    complete();
  }
  void stop() noexcept override {
    {
      const std::lock_guard lock(bell_.mutex_);
      if (!waits_) {
        return;  // It is being rung.
      }
      leave();
      bell_.is_awaited_ = bell_.first_ != nullptr;
    }
    complete();
  }

  // With the lock of the bell.
  void enter() noexcept {
    waits_ = true;
    next_ = bell_.first_;
    if (next_ != nullptr) {
      next_->previous_ = this;
    }
    bell_.first_ = this;
  }
  void leave() noexcept {
    waits_ = false;
    (previous_ == nullptr ? bell_.first_ : previous_->next_) = next_;
    if (next_ != nullptr) {
      next_->previous_ = previous_;
    }
  }

  Bell& bell_;
  const std::uint64_t heard_;
  bool rung_ = false;
  bool waits_ = false;
  Hearing* previous_ = nullptr;
  Hearing* next_ = nullptr;
};

void Bell::ring() {
  ++count_;
  if (!is_awaited_) {
    return;
  }
  Hearing* woken = nullptr;
  {
    const std::lock_guard lock(mutex_);
    woken = std::exchange(first_, nullptr);
    is_awaited_ = false;
    for (Hearing* one = woken; one != nullptr; one = one->next_) {
      one->waits_ = false;
      one->rung_ = true;
    }
  }
  while (woken != nullptr) {
    Hearing* const one = std::exchange(woken, woken->next_);
    one->complete();  // It may be gone now.
  }
}

Task<void> Bell::rung_since(std::uint64_t heard) {
  Hearing hearing(*this, heard);
  co_await hearing;
  if (!hearing.rung()) {
    this_task::check_stop();
  }
}

}  // namespace holdfast::detail
