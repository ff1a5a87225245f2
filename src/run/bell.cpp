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

  void end() noexcept { complete(); }
  [[nodiscard]] bool rung() const noexcept { return rung_; }
  void set_rung() noexcept { rung_ = true; }

 private:
  void begin() override {
    {
      const std::lock_guard lock(bell_.mutex_);
      if (bell_.count_ <= heard_) {
        bell_.waiting_.push_back(this);
        return;
      }
      rung_ = true;
    }
    complete();
  }
  void stop() noexcept override {
    {
      const std::lock_guard lock(bell_.mutex_);
      if (std::erase(bell_.waiting_, this) == 0) {
        return;  // It is being rung.
      }
    }
    complete();
  }

  Bell& bell_;
  const std::uint64_t heard_;
  bool rung_ = false;
};

void Bell::ring() {
  std::vector<Hearing*> woken;
  {
    const std::lock_guard lock(mutex_);
    ++count_;
    woken = std::exchange(waiting_, {});
    for (Hearing* const one : woken) {
      one->set_rung();
    }
  }
  for (Hearing* const one : woken) {
    one->end();
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
