// SPDX-License-Identifier: Apache-2.0
#include "run_signals.hpp"

#include <algorithm>
#include <utility>

#include "run_payload.hpp"

namespace holdfast::detail {

namespace {

bool is_waited_for(const std::shared_ptr<RunOperation>& operation) {
  const bool someone_has_it = operation.use_count() > 1;
  return someone_has_it && !operation->is_cancelled();
}

}  // namespace

RunSignals::Line& RunSignals::line(std::string_view name) {
  const auto found = lines_.find(name);
  return found != lines_.end() ? found->second : lines_[std::string(name)];
}

void RunSignals::take(const record::RunEvent& event) {
  if (!event.request().empty()) {
    if (seen_.find(event.request()) != nullptr) {
      return;
    }
    seen_.add(event.request(), {});
  }
  Line& to = line(event.name());
  boost::json::value payload = parse_payload(event.payload());
  while (!to.awaited.empty()) {
    const std::shared_ptr<RunOperation> operation = std::move(to.awaited.front());
    to.awaited.pop_front();
    if (is_waited_for(operation)) {
      operation->settle(std::move(payload));
      return;
    }
  }
  if (to.handler) {
    static_cast<void>(to.handler(std::move(payload)));
    return;
  }
  to.kept.push_back({taken_++, std::move(payload), event.request()});
}

void RunSignals::await(std::string_view name, const std::shared_ptr<RunOperation>& operation) {
  Line& from = line(name);
  if (!from.kept.empty()) {
    operation->settle(std::move(from.kept.front().payload));
    from.kept.pop_front();
    return;
  }
  // Waits that were given up would add up in a loop that waits for a signal or a time.
  while (!from.awaited.empty() && !is_waited_for(from.awaited.front())) {
    from.awaited.pop_front();
  }
  from.awaited.push_back(operation);
}

void RunSignals::handle(std::string_view name, RunHandler handler) {
  Line& from = line(name);
  from.handler = std::move(handler);
  while (!from.kept.empty()) {
    boost::json::value payload = std::move(from.kept.front().payload);
    from.kept.pop_front();
    static_cast<void>(from.handler(std::move(payload)));
  }
}

std::vector<record::RunEvent> RunSignals::take_kept() {
  std::vector<std::pair<std::uint64_t, record::RunEvent>> ordered;
  for (auto& [name, from] : lines_) {
    for (Kept& kept : from.kept) {
      record::RunEvent event;
      event.set_kind(record::RunEvent::SIGNALLED);
      event.set_name(name);
      event.set_payload(payload_text(kept.payload));
      event.set_request(std::move(kept.request));
      ordered.emplace_back(kept.order, std::move(event));
    }
    from.kept.clear();
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<record::RunEvent> events;
  events.reserve(ordered.size());
  for (auto& [order, event] : ordered) {
    events.push_back(std::move(event));
  }
  return events;
}

std::size_t RunSignals::kept_count() const noexcept {
  std::size_t count = 0;
  for (const auto& [name, from] : lines_) {
    count += from.kept.size();
  }
  return count;
}

std::vector<std::string> RunSignals::requests_done() const {
  std::vector<std::string> done = seen_.last(kRequestsPassedOnMax);
  for (const auto& [name, from] : lines_) {
    for (const Kept& kept : from.kept) {
      std::erase(done, kept.request);
    }
  }
  return done;
}

void RunSignals::know(const std::vector<std::string>& requests) {
  for (const std::string& request : requests) {
    seen_.add(request, {});
  }
}

std::vector<std::string> RunSignals::awaited() const {
  std::vector<std::string> names;
  for (const auto& [name, from] : lines_) {
    if (std::any_of(from.awaited.begin(), from.awaited.end(), is_waited_for)) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> RunSignals::handled() const {
  std::vector<std::string> names;
  for (const auto& [name, from] : lines_) {
    if (from.handler) {
      names.push_back(name);
    }
  }
  return names;
}

void RunSignals::forget_handlers() {
  for (auto& [name, from] : lines_) {
    from.handler = nullptr;
  }
}

}  // namespace holdfast::detail
