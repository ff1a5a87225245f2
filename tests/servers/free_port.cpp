// SPDX-License-Identifier: Apache-2.0
#include "free_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace holdfast::servers {

std::uint16_t free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): as the interface of sockets wants it.
  const bool bound = ::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  const int error = errno;
  ::close(listener);
  if (!bound) {
    throw std::system_error(error, std::generic_category(), "no free port");
  }
  return ::ntohs(address.sin_port);
}

}  // namespace holdfast::servers
