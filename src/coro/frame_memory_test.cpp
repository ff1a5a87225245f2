// SPDX-License-Identifier: Apache-2.0
#include <holdfast/detail/frame_memory.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::detail {
namespace {

/// A frame that is full of one byte.
class Frame {
 public:
  Frame(std::size_t size, unsigned char fill)
      : bytes_(static_cast<unsigned char*>(allocate_frame(size)), size), fill_(fill) {
    std::ranges::fill(bytes_, fill);
  }
  Frame(Frame&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), fill_(other.fill_) {}
  Frame& operator=(Frame&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(fill_, other.fill_);
    return *this;
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (!bytes_.empty()) {
      free_frame(bytes_.data(), bytes_.size());
    }
  }
  [[nodiscard]] bool is_whole() const {
    return std::ranges::all_of(bytes_, [&](unsigned char byte) { return byte == fill_; });
  }

 private:
  std::span<unsigned char> bytes_;
  unsigned char fill_;
};

TEST(FrameMemory, NoFrameIsGivenTwiceWhateverTheirSizes) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  std::vector<Frame> frames;
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t size = 1 + random() % 10'000;
    frames.emplace_back(size, static_cast<unsigned char>(random()));
    if (frames.size() == 40) {
      std::ranges::shuffle(frames, random);
      EXPECT_TRUE(std::ranges::all_of(frames, &Frame::is_whole)) << "seed " << kSeed;
      frames.erase(frames.begin() + 20, frames.end());
    }
  }
}

TEST(FrameMemory, AFrameMayBeFreedByAnotherThread) {
  std::vector<Frame> frames;
  for (int i = 0; i < 20; ++i) {
    frames.emplace_back(2'000, static_cast<unsigned char>(i));
  }
  std::thread([&] {
    EXPECT_TRUE(std::ranges::all_of(frames, &Frame::is_whole));
    frames.clear();
    const Frame next(2'000, 1);
    EXPECT_TRUE(next.is_whole());
  }).join();
}

TEST(FrameMemory, AFrameMayOutliveWhatItsThreadKeeps) {
  std::thread([] {
    // Made before the first frame of the thread, so it goes after what that one made.
    static thread_local std::vector<Frame> kept_to_the_end;
    kept_to_the_end.reserve(1);
    kept_to_the_end.emplace_back(3'000, 3);
    const Frame other(3'000, 4);
    EXPECT_TRUE(other.is_whole());
  }).join();
}

}  // namespace
}  // namespace holdfast::detail
