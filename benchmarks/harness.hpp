// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace holdfast::bench {

enum class Better : std::uint8_t { kLower, kHigher };

/// What is promised of a case. A case without a promise is for information.
struct Limit {
  std::optional<double> ratio_max{};
  std::optional<double> ratio_min{};
  std::optional<double> ours_max{};
  std::optional<double> ours_min{};
};

/// One comparison. Each side does a fixed amount of work and returns a figure in `unit`.
struct Case {
  std::string suite;
  std::string name;
  std::function<double()> ours;
  std::function<double()> peer;
  std::string peer_name;
  std::string unit = "ns";
  Better better = Better::kLower;
  Limit limit{};
  int rounds = 7;  ///< How often each side is measured, in turn; the median counts.
};

/// Adds a case to the program: define one per case, at namespace scope. Whatever is linked in is
/// known, so a new suite is a new file.
///
/// ```
/// const Registration kUncontended({.suite = "sync", .name = "uncontended", ...});
/// ```
class Registration {
 public:
  explicit Registration(Case added);
};

/// Thrown by a side that cannot run on this machine: the case is left out, with this reason.
class LeftOut : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Nanoseconds since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double elapsed_ns() const noexcept {
    return std::chrono::duration<double, std::nano>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Makes the compiler believe that `value` is read and written here.
template <typename T>
void keep(T& value) noexcept {
  asm volatile("" : "+m"(value) : : "memory");
}

/// A benchmark whose work was not done must not report a figure for it.
void require(bool condition, const char* message);

/// The program: what `holdfast_bench --help` says.
int run(int argc, char** argv);

}  // namespace holdfast::bench
