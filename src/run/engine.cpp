// SPDX-License-Identifier: Apache-2.0
#include <holdfast/engine.hpp>

#include <charconv>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <holdfast/capabilities.hpp>
#include <holdfast/error.hpp>

#include "gate/session_rules.hpp"
#include "partition_driver.hpp"
#include "run_head.hpp"
#include "run_payload.hpp"

namespace holdfast {

namespace detail {

namespace {

constexpr std::uint32_t kPartitions = 16;
constexpr std::string_view kQueue = "default";

}  // namespace

/// Where a run is, by its id: the digits of its partition stand behind its uid.
struct RunPlace {
  std::string uid;
  std::uint32_t partition = 0;
};

class EngineCore {
 public:
  EngineCore(Session& session, const EngineOptions& options)
      : session_(session), store_(session.store()), random_(std::random_device{}()) {
    if (options.executor == nullptr) {
      throw InvalidArgument("an Engine needs an executor: set EngineOptions::executor");
    }
    require_capabilities(store_, {.atomic = true, .notifies = true}, "Engine");
    const DriverWorld world{store_, session_, *options.executor,
                            options.steps == nullptr ? *options.executor : *options.steps,
                            [this](const std::string& type) { return code_of(type); }};
    for (std::uint32_t i = 0; i < kPartitions; ++i) {
      drivers_.push_back(std::make_shared<PartitionDriver>(world, PartitionKeys(kQueue, i)));
    }
  }
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;
  ~EngineCore() {
    for (const auto& driver : drivers_) {
      driver->close();
    }
  }

  void add(const std::string& name, std::shared_ptr<const WorkflowCode> code) {
    if (!codes_.emplace(name, std::move(code)).second) {
      throw InvalidArgument("two workflows are called '" + name + "'");
    }
  }
  [[nodiscard]] const WorkflowCode* code_of(const std::string& type) const {
    const auto found = codes_.find(type);
    return found == codes_.end() ? nullptr : found->second.get();
  }

  [[nodiscard]] Task<void> begin() {
    for (const auto& driver : drivers_) {
      static_cast<void>(co_await driver->take());
    }
  }

  [[nodiscard]] Task<std::string> start(std::string type, boost::json::value input) {
    PartitionDriver* driver = nullptr;
    std::uint32_t partition = 0;
    for (std::uint32_t i = 0; i < kPartitions && driver == nullptr; ++i) {
      partition = next_partition_++ % kPartitions;
      if (drivers_[partition]->is_owner()) {
        driver = drivers_[partition].get();
      }
    }
    if (driver == nullptr) {
      throw StoreBusy("no partition of runs is owned by this engine: call begin(), or try later");
    }
    const StoreTime now = co_await store_.time();
    std::string uid = session_id(now, random_(), static_cast<std::uint16_t>(random_()));
    std::string id = uid;
    id.append("-").append(std::to_string(partition));
    co_await driver->start(std::move(uid), std::move(type), std::move(input));
    co_return id;
  }

  [[nodiscard]] Task<boost::json::value> result(std::string id) {
    const RunPlace place = place_of(id);
    const std::string key = drivers_[place.partition]->keys().run(place.uid);
    Watch watch = store_.watch(key);
    for (;;) {
      const std::optional<Entry> row = co_await store_.get(key);
      if (!row) {
        throw NoSuchRun("there is no run '" + id + "' in " + store_.url());
      }
      const RunInfo info = info_of(id, read_run_head(*row));
      if (info.state == RunState::kCompleted) {
        co_return info.result;
      }
      if (info.state != RunState::kRunning) {
        throw RunFailed("run '" + id + "' (" + info.type + "): " + info.failure);
      }
      co_await watch.changed();
    }
  }

  [[nodiscard]] Task<std::optional<RunInfo>> describe(std::string id) {
    const RunPlace place = place_of(id);
    const std::string key = drivers_[place.partition]->keys().run(place.uid);
    const std::optional<Entry> row = co_await store_.get(key);
    std::optional<RunInfo> info;
    if (row) {
      info = info_of(id, read_run_head(*row));
    }
    co_return info;
  }

  /// Into the inbox, on condition that the run has not ended.
  [[nodiscard]] Task<void> send(std::string id, record::RunEvent event) {
    const RunPlace place = place_of(id);
    const PartitionKeys& keys = drivers_[place.partition]->keys();
    const std::string key = keys.run(place.uid);
    record::RunMessage message;
    message.set_format(kRunFormat);
    message.set_uid(place.uid);
    *message.mutable_event() = std::move(event);
    for (;;) {
      const std::optional<Entry> row = co_await store_.get(key, Read::kApplied);
      if (!row || read_run_head(*row).state() != record::RunHead::RUNNING) {
        throw NoSuchRun("there is no run '" + id + "' that goes on in " + store_.url());
      }
      const StoreTime now = co_await store_.time();
      Batch batch;
      batch.require_version(key, row->version);
      batch.put(keys.message(session_id(now, random_(), static_cast<std::uint16_t>(random_()))),
                message.SerializeAsString());
      const CommitOutcome outcome = co_await store_.commit(std::move(batch));
      if (outcome.committed() != nullptr) {
        co_return;
      }
    }
  }

 private:
  [[nodiscard]] static RunPlace place_of(const std::string& id) {
    RunPlace place;
    const std::size_t dash = id.rfind('-');
    const std::string digits = dash == std::string::npos ? "" : id.substr(dash + 1);
    const char* const end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, place.partition);
    if (digits.empty() || error != std::errc() || stopped != end ||
        place.partition >= kPartitions) {
      throw NoSuchRun("'" + id + "' is the id of no run");
    }
    place.uid = id.substr(0, dash);
    return place;
  }

  Session& session_;
  Store& store_;
  std::map<std::string, std::shared_ptr<const WorkflowCode>> codes_;
  std::vector<std::shared_ptr<PartitionDriver>> drivers_;
  std::uint32_t next_partition_ = 0;
  std::mt19937_64 random_;
};

}  // namespace detail

Engine::Engine(Session& session, const EngineOptions& options)
    : core_(std::make_shared<detail::EngineCore>(session, options)) {}
Engine::~Engine() = default;

void Engine::add_code(const std::string& name, std::shared_ptr<const detail::WorkflowCode> code) {
  core_->add(name, std::move(code));
}
Task<void> Engine::begin() { return core_->begin(); }
Task<std::string> Engine::start_run(std::string type, boost::json::value input) {
  return core_->start(std::move(type), std::move(input));
}
Task<boost::json::value> Engine::run_result(std::string id) { return core_->result(std::move(id)); }
Task<std::optional<RunInfo>> Engine::describe(std::string_view id) {
  return core_->describe(std::string(id));
}
Task<void> Engine::cancel(std::string_view id) {
  record::RunEvent event;
  event.set_kind(record::RunEvent::CANCEL_REQUESTED);
  return core_->send(std::string(id), std::move(event));
}
Task<void> Engine::send_signal(std::string id, std::string name, boost::json::value payload) {
  record::RunEvent event;
  event.set_kind(record::RunEvent::SIGNALLED);
  event.set_name(std::move(name));
  event.set_payload(detail::payload_text(payload));
  return core_->send(std::move(id), std::move(event));
}

}  // namespace holdfast
