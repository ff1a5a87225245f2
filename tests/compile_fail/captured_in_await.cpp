// SPDX-License-Identifier: Apache-2.0
// g++ before 13 would destroy what the lambda captured twice. OPERATION says which one.
#include <string>

#include <holdfast/sync.hpp>

using namespace holdfast;

Task<void> use(Mutex& mutex, KeyedMutex<int>& keyed, Semaphore& semaphore, SharedMutex& shared,
               RateLimiter& limiter, KeyedRateLimiter<int>& keyed_limiter, std::string text) {
  static_cast<void>(mutex.is_locked() || keyed.size() > 0 || semaphore.is_locked() ||
                    shared.is_locked() || limiter.available() > 0 || keyed_limiter.size() > 0);
#ifdef HOLDFAST_SAMPLE_IS_GOOD
  auto work = mutex.run_exclusive([text] { return text.size(); });
  co_await work;
  co_await mutex.run_exclusive([&text] { return text.size(); });
#else
  co_await OPERATION[text] { return text.size(); });
#endif
}
