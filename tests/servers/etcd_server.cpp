// SPDX-License-Identifier: Apache-2.0
#include "etcd_server.hpp"

#include <string>

#include "free_port.hpp"
#include "start_on_free_port.hpp"

namespace holdfast::servers {

namespace {

std::string url_of(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

}  // namespace

EtcdServer::EtcdServer(const std::filesystem::path& parent) : folder_(parent) {
  const std::string program = find_program("etcd", "etcd-server");
  start_on_free_port([&] {
    process_.reset();
    const std::filesystem::path data = folder_ / "data";
    std::filesystem::remove_all(data);
    port_ = free_port();
    const std::string clients = url_of(port_);
    const std::string peers = url_of(free_port());
    process_.emplace(
        std::vector<std::string>{program, "--data-dir", data, "--listen-client-urls", clients,
                                 "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                                 "--initial-advertise-peer-urls", peers, "--initial-cluster",
                                 "default=" + peers},
        ProcessOptions{.folder = folder_.path()});
    process_->until_prints("ready to serve client requests");
  });
}

}  // namespace holdfast::servers
