// SPDX-License-Identifier: Apache-2.0
#include "etcd_locks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <stdexcept>

#include "harness.hpp"

namespace holdfast::bench {

namespace {

/// The text of a member of a flat JSON object.
std::string member(const std::string& json, const std::string& name) {
  const std::string start = '"' + name + "\":\"";
  const std::size_t found = json.find(start);
  require(found != std::string::npos, "etcd's answer lacks what was asked for");
  const std::size_t begin = found + start.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

}  // namespace

EtcdLocks::EtcdLocks(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(port);
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as the interface of sockets is.
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  require(::connect(socket_, generic, sizeof address) == 0, "no connection to etcd");
  lease_ = member(post("/v3/lease/grant", R"({"TTL":"60"})"), "ID");
}

EtcdLocks::~EtcdLocks() { ::close(socket_); }

std::string EtcdLocks::lock(const std::string& name) {
  const std::string request = R"({"name":")" + name + R"(","lease":")" + lease_ + R"("})";
  return member(post("/v3/lock/lock", request), "key");
}

void EtcdLocks::unlock(const std::string& key) {
  post("/v3/lock/unlock", R"({"key":")" + key + R"("})");
}

std::string EtcdLocks::post(const std::string& path, const std::string& body) {
  std::string request = "POST ";
  request.append(path).append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ");
  request.append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  require(::send(socket_, request.data(), request.size(), MSG_NOSIGNAL) == std::ssize(request),
          "etcd does not take a request");
  std::size_t head = 0;
  while ((head = unread_.find("\r\n\r\n")) == std::string::npos) {
    read_more();
  }
  require(unread_.starts_with("HTTP/1.1 200 "), "etcd refused a request");
  const std::string length = "\r\nContent-Length: ";
  const std::size_t found = unread_.find(length);
  require(found < head, "etcd does not say how long its answer is");
  const std::size_t size = std::stoul(unread_.substr(found + length.size()));
  const std::size_t begin = head + 4;
  while (unread_.size() < begin + size) {
    read_more();
  }
  std::string answer = unread_.substr(begin, size);
  unread_.erase(0, begin + size);
  return answer;
}

void EtcdLocks::read_more() {
  std::array<char, 4096> part{};
  const ssize_t count = ::recv(socket_, part.data(), part.size(), 0);
  require(count > 0, "etcd closed the connection");
  unread_.append(part.data(), static_cast<std::size_t>(count));
}

}  // namespace holdfast::bench
