// SPDX-License-Identifier: Apache-2.0
#include <holdfast/admission.hpp>

#include <exception>

#include "gate/gate_keys.hpp"

namespace holdfast {

namespace {

std::string text_of_limit(const std::string& type, const std::string& key, const std::string& why) {
  std::string text = "workflow '" + type + "'";
  if (!key.empty()) {
    text.append(", key '").append(key).append("'");
  }
  return text.append(": ").append(why);
}

}  // namespace

ConcurrencyLimitExceeded::ConcurrencyLimitExceeded(std::string type, std::string key,
                                                   std::uint64_t limit, const std::string& why)
    : Error(ErrorCode::kConcurrencyLimitExceeded, text_of_limit(type, key, why)),
      type_(std::move(type)),
      key_(std::move(key)),
      limit_(limit) {}

namespace detail {

namespace {

[[noreturn]] void refuse_terms(const std::string& type, const std::string& fault) {
  throw InvalidArgument("Concurrency of workflow '" + type + "': " + fault);
}

void check_max(const std::string& type, const char* what, std::optional<std::uint64_t> max) {
  if (max && (*max == 0 || *max > kGateCapacityMax)) {
    refuse_terms(type, std::string(what) + " is " + std::to_string(*max) + "; give 1 to " +
                           std::to_string(kGateCapacityMax));
  }
}

void check_time_of(const std::string& type, const char* what, std::optional<Duration> time) {
  if (time && *time <= Duration::zero()) {
    refuse_terms(type, std::string(what) + " is " + std::to_string(time->count()) +
                           " ns; give a time above zero, or none");
  }
}

/// What is for starts that wait: none does.
void check_terms_for_steps(const std::string& type, const Concurrency& terms) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    refuse_terms(type, what + ", and with HoldSlot::kForStep every run begins at once: " + instead);
  };
  if (terms.when_full != WhenFull::kQueue) {
    refuse("when_full is not WhenFull::kQueue", "give kQueue, as its steps wait their turn");
  }
  if (terms.rate) {
    refuse("rate is set", "give none, and the steps a Limit with a rate (StepOptions::limit)");
  }
  if (terms.wait_max) {
    refuse("wait_max is set", "give none, and the steps a StepOptions::timeout");
  }
  if (terms.queue_max != Concurrency{}.queue_max) {
    refuse("queue_max is " + std::to_string(terms.queue_max), "give none");
  }
}

void check_terms(const std::string& type, const Concurrency& terms, bool has_keys) {
  check_max(type, "max", terms.max);
  check_max(type, "max_total", terms.max_total);
  check_time_of(type, "wait_max", terms.wait_max);
  check_time_of(type, "replace_grace", terms.replace_grace);
  if (terms.rate) {
    check_time_of(type, "rate.period", terms.rate->period);
    if (terms.rate->count == 0) {
      refuse_terms(type, "rate.count is 0; give at least 1");
    }
    if (terms.hold == HoldSlot::kWhileBusy) {
      refuse_terms(type,
                   "a slot that is let go of while the run waits is taken again and again, and "
                   "each time would count as a start: give no rate, or HoldSlot::kForRun");
    }
  }
  if (terms.queue_max == 0) {
    refuse_terms(type, "queue_max is 0: for that there is WhenFull::kReject");
  }
  if (!terms.max && !terms.max_total && !terms.rate) {
    refuse_terms(type, "it limits nothing; set max, max_total or rate");
  }
  if (!has_keys && terms.max && terms.max_total) {
    refuse_terms(type, "max and max_total are both set, and without keys they limit the same");
  }
  if (terms.replace_grace && terms.when_full != WhenFull::kReplace) {
    refuse_terms(type, "replace_grace is for WhenFull::kReplace");
  }
  if (terms.hold == HoldSlot::kForStep) {
    check_terms_for_steps(type, terms);
  }
}

/// So that no type with a key has the name of another type.
std::string without_slashes(const std::string& type) {
  std::string name;
  for (const char c : type) {
    if (c == '/') {
      name.append("%2F");
    } else if (c == '%') {
      name.append("%25");
    } else {
      name.push_back(c);
    }
  }
  return name;
}

}  // namespace

Admission::Admission(std::string type, const Concurrency& terms, KeyOf key_of)
    : type_(std::move(type)), terms_(terms), key_of_(std::move(key_of)) {
  check_terms(type_, terms_, key_of_ != nullptr);
  static_cast<void>(GateKeys("admission/" + without_slashes(type_)));
}

std::string Admission::key_of(const boost::json::value& input) const {
  if (!key_of_) {
    return {};
  }
  std::string failure;
  try {
    return key_of_(input);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    failure = error.what();
  } catch (...) {
    failure = "it threw something that is no std::exception";
  }
  throw InvalidArgument("the function for keys of workflow '" + type_ + "' failed: " + failure);
}

GateDefinition Admission::definition_of(std::optional<std::uint64_t> max,
                                        const std::optional<StartRate>& rate) const {
  GateDefinition definition;
  definition.capacity = max.value_or(kGateCapacityMax);
  if (rate) {
    definition.rate_count = rate->count;
    definition.rate_period = rate->period;
  }
  return definition;
}

std::vector<AdmissionGate> Admission::gates(const std::string& key) const {
  const std::string total = "admission/" + without_slashes(type_);
  if (!key_of_) {
    const std::optional<std::uint64_t> max = terms_.max ? terms_.max : terms_.max_total;
    return {{total, definition_of(max, terms_.rate), max.has_value(), true}};
  }
  std::vector<AdmissionGate> gates;
  if (terms_.max || terms_.rate) {
    std::string name = total + "/" + key;
    static_cast<void>(GateKeys(name));
    gates.push_back(
        {std::move(name), definition_of(terms_.max, terms_.rate), terms_.max.has_value(), true});
  }
  if (terms_.max_total) {
    gates.push_back({total, definition_of(terms_.max_total, {}), true, false});
  }
  return gates;
}

}  // namespace detail

}  // namespace holdfast
