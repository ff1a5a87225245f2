// SPDX-License-Identifier: Apache-2.0
#include "postgres_server.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <utility>

#include "user.hpp"

namespace holdfast::servers {

namespace {

namespace fs = std::filesystem;

/// Debian keeps each version in a folder of its own: the newest first.
std::vector<fs::path> program_folders() {
  const fs::path versions = "/usr/lib/postgresql";
  std::vector<fs::path> folders;
  if (fs::is_directory(versions)) {
    for (const fs::directory_entry& version : fs::directory_iterator(versions)) {
      folders.push_back(version.path() / "bin");
    }
  }
  std::ranges::sort(folders, std::greater());
  return folders;
}

fs::path program(const std::string& name) {
  return find_program(name, "postgresql-15", program_folders());
}

void give_to(const std::string& name, const fs::path& folder) {
  const std::optional<User> user = user_to_become(name);
  if (user && ::chown(folder.c_str(), user->uid, user->gid) != 0) {
    throw std::runtime_error(folder.string() + " cannot be given to the user " + name);
  }
}

}  // namespace

PostgresServer::PostgresServer(const std::vector<std::string>& settings) {
  give_to("postgres", folder_.path());
  // SIGQUIT is an immediate shutdown.
  const ProcessOptions options{
      .folder = folder_.path(), .user = "postgres", .stop_signal = SIGQUIT};
  const std::string data = (folder_ / "data").string();
  Process making({program("initdb"), "--pgdata", data, "--username=postgres", "--auth=trust",
                  "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"},
                 options);
  if (making.until_ended() != 0) {
    throw std::runtime_error("initdb failed: " + making.output());
  }
  std::vector<std::string> command{program("postgres"), "-D", data, "-k", folder_.path(), "-h", ""};
  std::vector<std::string> all_settings{"fsync=off",           "full_page_writes=off",
                                        "shared_buffers=16MB", "autovacuum=off",
                                        "max_wal_senders=0",   "wal_level=minimal"};
  all_settings.insert(all_settings.end(), settings.begin(), settings.end());
  for (const std::string& setting : all_settings) {
    command.insert(command.end(), {"-c", setting});
  }
  process_.emplace(std::move(command), options);
  process_->until_prints("database system is ready to accept connections");
}

std::string PostgresServer::connection_text() const {
  return "host=" + folder_.path().string() + " port=5432 user=postgres dbname=postgres";
}

}  // namespace holdfast::servers
