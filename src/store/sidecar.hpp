// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "store/neighbours.hpp"
#include "store/news_ring.hpp"

namespace holdfast::detail {

/// Neighbours on one host: a small file beside the store that its processes lock and map.
///
/// Its bytes are hints that anyone's crash may leave in disorder, and the first one to open it
/// tidies up; only the mark is kept, and, as long as somebody has it open, whether the last turn
/// ended well. Who has the turn is known to the kernel alone, which takes it from the dead. Nobody
/// deletes the file: processes that have different files open do not know of each other. Nor may
/// anybody shorten it while it is in use.
///
/// One thread takes turns, publishes and marks; another may wait for news at the same time; any may
/// interrupt. After fork() the child must not use its copy of the object, but for destroying it. A
/// child that lives on with the parent's descriptors, without exec, keeps the locks of a parent
/// that dies.
class Sidecar final : public Neighbours {
 public:
  /// Opens the file, or creates it with mode 0600. Throws `NotAStore` or `NewerFormat` for a file
  /// that is not ours to change, `InvalidArgument` or `NoAccess` for a path that cannot be used,
  /// `StoreFull`, `StoreBusy`, or `Unsupported` for a file system without locks.
  ///
  /// What was committed before is not news: read the store after this, not before.
  explicit Sidecar(std::filesystem::path path);
  /// A turn ends with it; who waits for that notices within 20 ms.
  ~Sidecar() override;

  [[nodiscard]] bool take_turn(TimePoint until) override;
  void end_turn() noexcept override;
  [[nodiscard]] bool turn_wanted() noexcept override;
  [[nodiscard]] bool is_settled() const noexcept override;
  void set_settled(bool settled) noexcept override;
  [[nodiscard]] bool alone() const noexcept override;

  void publish(std::span<const std::string_view> keys) noexcept override;
  [[nodiscard]] std::optional<News> wait_for_news(TimePoint until) override;

  void interrupt() noexcept override;

  [[nodiscard]] std::uint64_t durable_mark() const noexcept override;
  void set_durable_mark(std::uint64_t version) noexcept override;

  /// Keeps 256 KiB of the disk occupied, if they can be had, so that there is something to give
  /// back when the disk is full: some stores cannot even be opened without a little space.
  void keep_ballast() noexcept;
  void drop_ballast() noexcept;

 private:
  struct Page;
  struct Unmap {
    void operator()(Page* page) const noexcept;
  };
  class File {
   public:
    explicit File(int fd) : fd_(fd) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();
    [[nodiscard]] int fd() const noexcept { return fd_; }

   private:
    int fd_;
  };
  class PlaceInLine;
  struct Bytes;
  enum class Bell : std::uint8_t;

  [[nodiscard]] std::unique_ptr<Page, Unmap> attach();
  void wait_to_open();
  void inspect();
  void allocate(bool alone);
  [[nodiscard]] std::unique_ptr<Page, Unmap> map();

  [[nodiscard]] static struct flock lock_of(Bytes bytes, short type) noexcept;
  [[nodiscard]] bool try_lock(Bytes bytes, short type);
  void unlock(Bytes bytes) noexcept;
  [[nodiscard]] std::optional<off_t> held_by_other(Bytes bytes) const noexcept;

  template <class Ready>
  [[nodiscard]] bool wait_for(Bell bell, std::uint32_t bits, TimePoint until, Ready ready);
  void call_next() noexcept;

  [[noreturn]] void fail(std::string_view what, int error) const;

  std::filesystem::path path_;
  File file_;
  std::unique_ptr<Page, Unmap> page_;
  NewsRing news_;
  std::uint64_t id_;        // Marks what this object publishes.
  std::uint64_t position_;  // Up to here the news are read.
  bool has_turn_ = false;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace holdfast::detail
