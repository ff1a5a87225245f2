// SPDX-License-Identifier: Apache-2.0
#include "redis_counters.hpp"

#include <cstddef>

#include <holdfast/fencing.hpp>

#include "database_error.hpp"

namespace holdfast::fencing {

namespace {

std::string fence_key(const std::string& key) { return "{" + key + "}:fence"; }

std::int64_t number(const std::optional<std::string>& text) { return text ? std::stoll(*text) : 0; }

}  // namespace

RedisCounters::RedisCounters(const std::string& port)
    : connection_(redisConnect("127.0.0.1", std::stoi(port))) {
  if (connection_ == nullptr || connection_->err != 0) {
    throw DatabaseError(connection_ == nullptr ? "no memory" : connection_->errstr);
  }
}

// [redis]
std::optional<std::string> RedisCounters::run_fenced(const std::string& key,
                                                     const std::string& fence,
                                                     const std::vector<std::string>& command) {
  std::vector<std::string> words{"EVAL", std::string(kRedisFencedCommand), "2", fence_key(key), key,
                                 fence};
  words.insert(words.end(), command.begin(), command.end());
  return run(words);
}

std::int64_t RedisCounters::read(const std::string& counter, std::uint64_t fence) {
  return number(run_fenced(counter, std::to_string(fence), {"GET", counter}));
}

void RedisCounters::write(const std::string& counter, std::uint64_t fence, std::int64_t value) {
  run_fenced(counter, std::to_string(fence), {"SET", counter, std::to_string(value)});
}
// [redis]

std::int64_t RedisCounters::read_unguarded(const std::string& counter) {
  return number(run({"GET", counter}));
}

void RedisCounters::present_text(const std::string& counter, const std::string& fence) {
  run_fenced(counter, fence, {});
}

std::optional<std::string> RedisCounters::fence_of(const std::string& counter) {
  return run({"GET", fence_key(counter)});
}

std::optional<std::string> RedisCounters::run(const std::vector<std::string>& command) {
  std::vector<const char*> words;
  std::vector<std::size_t> sizes;
  for (const std::string& word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  void* const answer = redisCommandArgv(connection_.get(), static_cast<int>(words.size()),
                                        words.data(), sizes.data());
  const std::unique_ptr<redisReply, void (*)(void*)> reply(static_cast<redisReply*>(answer),
                                                           freeReplyObject);
  if (reply == nullptr) {
    throw DatabaseError(connection_->errstr);
  }
  switch (reply->type) {
    case REDIS_REPLY_NIL:
      return std::nullopt;
    case REDIS_REPLY_INTEGER:
      return std::to_string(reply->integer);
    case REDIS_REPLY_ERROR:
      throw DatabaseError(std::string(reply->str, reply->len));
    default:
      return std::string(reply->str, reply->len);
  }
}

}  // namespace holdfast::fencing
