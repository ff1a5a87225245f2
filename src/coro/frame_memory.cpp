// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/frame_memory.hpp>

#include <array>
#include <new>
#include <utility>

namespace holdfast::detail {

namespace {

constexpr std::size_t kStep = 64;
constexpr std::size_t kKeptSizeMax = 8'192;
/// Of each size, by each thread.
constexpr std::size_t kKeptBytesMax = 524'288;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kKeepsFrames = false;  // They shall see every use of a frame that is gone.
#elif defined(__has_feature)
// NOLINTNEXTLINE(misc-redundant-expression): they differ in what they are built for.
constexpr bool kKeepsFrames = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kKeepsFrames = true;
#endif

/// After the cache of a thread has gone, other variables of the thread may still free frames.
thread_local bool cache_has_gone = false;

/// What a thread keeps.
class FrameCache {
 public:
  FrameCache() = default;
  FrameCache(const FrameCache&) = delete;
  FrameCache& operator=(const FrameCache&) = delete;
  ~FrameCache() {
    cache_has_gone = true;
    for (std::size_t steps = 0; steps < kept_.size(); ++steps) {
      while (void* const frame = take(steps)) {
        ::operator delete(frame);
      }
    }
  }

  /// Null: there is none.
  [[nodiscard]] void* take(std::size_t steps) noexcept {
    Kept& kept = kept_[steps];
    if (kept.first == nullptr) {
      return nullptr;
    }
    kept.bytes -= steps * kStep;
    return std::exchange(kept.first, kept.first->next);
  }
  /// False: there are enough.
  [[nodiscard]] bool keep(void* frame, std::size_t steps) noexcept {
    Kept& kept = kept_[steps];
    if (kept.bytes >= kKeptBytesMax) {
      return false;
    }
    kept.first = new (frame) Free{kept.first};
    kept.bytes += steps * kStep;
    return true;
  }

 private:
  struct Free {
    Free* next;
  };
  struct Kept {
    Free* first = nullptr;
    std::size_t bytes = 0;
  };

  std::array<Kept, kKeptSizeMax / kStep + 1> kept_;
};

thread_local FrameCache cache;

constexpr std::size_t steps_of(std::size_t size) noexcept { return (size + kStep - 1) / kStep; }

bool is_kept(std::size_t size) noexcept {
  return kKeepsFrames && size <= kKeptSizeMax && !cache_has_gone;
}

}  // namespace

void* allocate_frame(std::size_t size) {
  void* const kept = is_kept(size) ? cache.take(steps_of(size)) : nullptr;
  // Each as large as the largest that may be put in its place.
  return kept != nullptr ? kept : ::operator new(steps_of(size) * kStep);
}

void free_frame(void* frame, std::size_t size) noexcept {
  if (!is_kept(size) || !cache.keep(frame, steps_of(size))) {
    ::operator delete(frame);
  }
}

}  // namespace holdfast::detail
