// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace holdfast::testing {

class MortalProcess;

/// The attempts of steps that are under way at each limit, as they see each other themselves. One
/// that was asked to stop does not count, nor does one in a process that may be deposed without
/// knowing it: these are what fences are for.
class LimitedBodies {
 public:
  struct Body {
    const MortalProcess* where = nullptr;
    std::stop_token stop;
    std::uint64_t fence = 0;
  };
  /// Is among them until it is destroyed, also if that is by the death of its process.
  class Presence {
   public:
    Presence(LimitedBodies& bodies, int limit, Body body);
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;
    ~Presence();

   private:
    std::set<const Body*>& others_;
    const Body body_;
  };

  std::vector<std::string> faults;
  std::uint64_t seen = 0;

 private:
  void check(int limit, const Body& comes);

  std::map<int, std::set<const Body*>> under_way_;
  std::map<int, std::uint64_t> last_fence_;
};

}  // namespace holdfast::testing
