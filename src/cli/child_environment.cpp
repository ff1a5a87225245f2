// SPDX-License-Identifier: Apache-2.0
#include "child_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <fmt/core.h>

#include "escape.hpp"
#include "json.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* kActor = "HOLDFAST_ACTOR";
/// The nearest ones; each costs a row while it waits.
constexpr std::size_t kAncestorsMax = 100;

std::string locks_json(const std::vector<DurableHold>& holds) {
  std::vector<std::string> locks;
  locks.reserve(holds.size());
  for (const DurableHold& hold : holds) {
    std::vector<std::string> slots;
    for (const std::uint64_t slot : hold.slots()) {
      slots.push_back(std::to_string(slot));
    }
    locks.push_back(json_object({{"name", json_string(hold.name())},
                                 {"fence", std::to_string(hold.fence())},
                                 {"slots", json_array(slots)}}));
  }
  return json_array(locks);
}

bool is_session_id(std::string_view text) {
  constexpr std::size_t kDigits = 32;
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

std::string slots_text(const std::vector<std::uint64_t>& slots) {
  std::string text;
  for (const std::uint64_t slot : slots) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", slot);
  }
  return text;
}

std::vector<std::string> ancestors_of_environment() {
  const char* value = std::getenv(kActor);  // NOLINT(concurrency-mt-unsafe): nobody sets it here.
  std::string_view text = value == nullptr ? std::string_view{} : value;
  std::vector<std::string> ancestors;
  while (!text.empty() && ancestors.size() < kAncestorsMax) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (is_session_id(one)) {
      ancestors.emplace_back(one);
    }
  }
  return ancestors;
}

std::vector<std::string> environment_for(const std::vector<DurableHold>& holds,
                                         const Session& session,
                                         const std::vector<std::string>& ancestors) {
  constexpr std::array<std::string_view, 8> kOurs{
      "HOLDFAST_LOCK=",  "HOLDFAST_LOCKS=",  "HOLDFAST_FENCE=", "HOLDFAST_SLOT=",
      "HOLDFAST_SLOTS=", "HOLDFAST_HOLDER=", "HOLDFAST_STORE=", "HOLDFAST_ACTOR="};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kOurs, [&](auto name) { return text.starts_with(name); })) {
      variables.emplace_back(text);
    }
  }
  if (holds.size() == 1) {
    const DurableHold& hold = holds.front();
    variables.push_back("HOLDFAST_LOCK=" + hold.name());
    variables.push_back(fmt::format("HOLDFAST_FENCE={}", hold.fence()));
    if (!hold.slots().empty()) {
      variables.push_back(fmt::format("HOLDFAST_SLOT={}", hold.slots().front()));
      variables.push_back(fmt::format("HOLDFAST_SLOTS={}", slots_text(hold.slots())));
    }
  }
  variables.push_back("HOLDFAST_LOCKS=" + locks_json(holds));
  variables.push_back("HOLDFAST_HOLDER=" + session.name());
  variables.push_back("HOLDFAST_STORE=" + session.store().url());
  std::string actor = fmt::format("{}={}", kActor, session.id());
  for (const std::string& one : ancestors) {
    actor.append(",").append(one);
  }
  variables.push_back(std::move(actor));
  return variables;
}

}  // namespace holdfast::cli
