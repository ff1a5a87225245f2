// SPDX-License-Identifier: Apache-2.0
// The locks that JavaScript programs use, where Node.js is at hand: for information.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "benchmarks/harness.hpp"
#include "sync_bench.hpp"

namespace holdfast::bench {

namespace {

namespace fs = std::filesystem;

const std::string kScripts = HOLDFAST_BENCH_NODE_SCRIPTS;
const std::string kFolder = HOLDFAST_BENCH_NODE_FOLDER;

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

struct Ended {
  int status;
  std::string output;
};

Ended shell(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    throw LeftOut("no process could be started");
  }
  std::string output;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    output += part.data();
  }
  return {pclose(pipe), output};
}

/// Why it cannot be done, or nothing.
std::string install() {
  if (shell("command -v node && command -v npm").status != 0) {
    return "node and npm are not on this machine";
  }
  std::error_code failed;
  fs::create_directories(kFolder, failed);
  for (const char* const file : {"package.json", "measure.mjs"}) {
    if (!failed) {
      fs::copy_file(fs::path(kScripts) / file, fs::path(kFolder) / file,
                    fs::copy_options::overwrite_existing, failed);
    }
  }
  if (failed) {
    return "cannot write to " + kFolder + ": " + failed.message();
  }
  const Ended npm = shell("cd " + quoted(kFolder) +
                          " && npm install --prefer-offline --no-audit --no-fund"
                          " --no-package-lock --loglevel=error 2>&1");
  return npm.status == 0 ? ""
                         : "npm install failed: " + npm.output.substr(0, npm.output.find('\n'));
}

double node_ns(const std::string& package, const std::string& work) {
  static const std::string kObstacle = install();
  if (!kObstacle.empty()) {
    throw LeftOut(kObstacle);
  }
  const Ended node =
      shell("cd " + quoted(kFolder) + " && node measure.mjs " + package + ' ' + work + " 2>&1");
  char* end = nullptr;
  const double figure = std::strtod(node.output.c_str(), &end);
  if (node.status != 0 || end == node.output.c_str()) {
    throw LeftOut("node failed: " + node.output.substr(0, node.output.find('\n')));
  }
  return figure;
}

Case against(const std::string& name, const std::string& package, const std::string& work,
             double (*ours)()) {
  return {.suite = "sync",
          .name = name,
          .ours = ours,
          .peer = [package, work] { return node_ns(package, work); },
          .peer_name = package + " of npm, on Node.js",
          .rounds = 3};
}

const Registration kMutex(against("node_async_mutex", "async-mutex", "uncontended",
                                  uncontended_mutex_ns));
const Registration kMutexHandoff(against("node_async_mutex_handoff", "async-mutex", "handoff",
                                         handoff_mutex_ns));
const Registration kSema(against("node_async_sema", "async-sema", "uncontended",
                                 uncontended_mutex_ns));
const Registration kSemaHandoff(against("node_async_sema_handoff", "async-sema", "handoff",
                                        handoff_mutex_ns));

}  // namespace

}  // namespace holdfast::bench
