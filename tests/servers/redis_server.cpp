// SPDX-License-Identifier: Apache-2.0
#include "redis_server.hpp"

#include "free_port.hpp"
#include "start_on_free_port.hpp"

namespace holdfast::servers {

RedisServer::RedisServer(const std::vector<std::string>& settings) {
  const std::string program = find_program("redis-server", "redis-server");
  start_on_free_port([&] {
    port_ = free_port();
    std::vector<std::string> command{
        program,  "--bind", "127.0.0.1", "--port",      std::to_string(port_),
        "--save", "",       "--dir",     folder_.path()};
    command.insert(command.end(), settings.begin(), settings.end());
    process_.emplace(std::move(command), ProcessOptions{.folder = folder_.path()});
    process_->until_prints("eady to accept connections");  // "Ready" in some versions.
  });
}

}  // namespace holdfast::servers
