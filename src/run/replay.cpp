// SPDX-License-Identifier: Apache-2.0
#include <holdfast/replay.hpp>

#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include <cstdint>
#include <optional>
#include <utility>

#include <holdfast/run_error.hpp>

#include "json/exact_parse.hpp"
#include "run_machine.hpp"
#include "run_payload.hpp"

namespace holdfast {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::string_view kFormatMember = "holdfast_run";
constexpr int kTextFormat = 1;

std::string hex_of(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text.push_back(kDigits[value >> 4U]);
    text.push_back(kDigits[value & 0xfU]);
  }
  return text;
}

std::optional<std::string> bytes_of(std::string_view hex) {
  std::string bytes;
  if (hex.size() % 2 != 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::size_t high = kDigits.find(hex[i]);
    const std::size_t low = kDigits.find(hex[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

[[noreturn]] void refuse_line(std::size_t line, std::string_view why) {
  std::string text("the recorded run is damaged at line ");
  text.append(std::to_string(line)).append(": ").append(why);
  throw InvalidArgument(text);
}

std::string text_member(const boost::json::object& object, std::string_view name,
                        std::size_t line) {
  const boost::json::value* member = object.if_contains(name);
  if (member == nullptr || !member->is_string()) {
    refuse_line(line, "it has no text '" + std::string(name) + "'");
  }
  return std::string(member->get_string());
}

std::vector<std::string> texts_in(const boost::json::value& value, const std::string& member,
                                  std::size_t line) {
  std::vector<std::string> texts;
  const boost::json::array* const array = value.if_array();
  if (array == nullptr) {
    refuse_line(line, "'" + member + "' is no list");
  }
  for (const boost::json::value& text : *array) {
    if (!text.is_string()) {
      refuse_line(line, "'" + member + "' is no list of texts");
    }
    texts.emplace_back(text.get_string());
  }
  return texts;
}

RecordedRun read_head(std::string_view text, std::size_t line) {
  boost::json::error_code error;
  const boost::json::value value = detail::exact_parse(text, detail::kPayloadDepthMax + 1, error);
  if (error || !value.is_object() || !value.get_object().contains(kFormatMember)) {
    refuse_line(line, "expected {\"holdfast_run\":1,...}, which says what run it is");
  }
  const boost::json::object& object = value.get_object();
  if (object.at(kFormatMember) != kTextFormat) {
    throw NewerFormat("the recorded run has format " +
                      boost::json::serialize(object.at(kFormatMember)) +
                      ", of a later version of Holdfast; use a newer one");
  }
  RecordedRun run;
  run.id = text_member(object, "id", line);
  run.type = text_member(object, "type", line);
  run.uid = text_member(object, "uid", line);
  run.root_id = text_member(object, "root_id", line);
  run.parent_id = text_member(object, "parent_id", line);
  const boost::json::value* input = object.if_contains("input");
  const boost::json::value* started = object.if_contains("started_at_ns");
  if (input == nullptr || started == nullptr || !started->is_int64()) {
    refuse_line(line, "it has no 'input', or no whole number 'started_at_ns'");
  }
  if (const boost::json::value* requests = object.if_contains("requests_done")) {
    run.requests_done = texts_in(*requests, "requests_done", line);
  }
  if (const boost::json::value* answers = object.if_contains("answers")) {
    for (const std::string& hex : texts_in(*answers, "answers", line)) {
      std::optional<std::string> answer = bytes_of(hex);
      if (!answer) {
        refuse_line(line, "'answers' is no list of texts in hexadecimal, in small letters");
      }
      run.answers.push_back(*std::move(answer));
    }
  }
  if (object.contains("root_uid")) {
    run.root_uid = text_member(object, "root_uid", line);
  }
  if (object.contains("random_uid")) {
    run.random_uid = text_member(object, "random_uid", line);
  }
  run.input = *input;
  run.started_at = StoreTime(Duration(started->get_int64()));
  return run;
}

record::Activation row_at(const RecordedRun& run, std::size_t index) {
  record::Activation row;
  if (!row.ParseFromString(run.rows[index]) || row.format() == 0) {
    throw InvalidArgument("row " + std::to_string(index) + " of the recorded run '" + run.id +
                          "' is damaged");
  }
  if (row.format() > detail::kRunFormat) {
    throw NewerFormat("row " + std::to_string(index) + " of the recorded run '" + run.id +
                      "' is of a later version of Holdfast; use a newer one");
  }
  return row;
}

}  // namespace

std::string RecordedRun::to_text() const {
  boost::json::object head;
  head[kFormatMember] = kTextFormat;
  head["id"] = id;
  head["type"] = type;
  head["uid"] = uid;
  head["root_id"] = root_id;
  if (!root_uid.empty()) {
    head["root_uid"] = root_uid;
  }
  if (!random_uid.empty()) {
    head["random_uid"] = random_uid;
  }
  head["parent_id"] = parent_id;
  head["started_at_ns"] = started_at.time_since_epoch().count();
  if (!requests_done.empty()) {
    head["requests_done"] = boost::json::value_from(requests_done);
  }
  if (!answers.empty()) {
    boost::json::array& list = head["answers"].emplace_array();
    for (const std::string& answer : answers) {
      list.emplace_back(hex_of(answer));
    }
  }
  head["input"] = input;
  std::string text = boost::json::serialize(head);
  text.push_back('\n');
  for (const std::string& row : rows) {
    text.append(hex_of(row)).push_back('\n');
  }
  return text;
}

RecordedRun RecordedRun::from_text(std::string_view text) {
  std::optional<RecordedRun> run;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t length = text.find('\n');
    const std::string_view content = text.substr(0, length);
    text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
    if (content.empty() || content.front() == '#') {
      continue;
    }
    if (!run) {
      run = read_head(content, line);
      continue;
    }
    std::optional<std::string> row = bytes_of(content);
    if (!row) {
      refuse_line(line, "expected a row in hexadecimal, in small letters");
    }
    run->rows.push_back(*std::move(row));
  }
  if (!run) {
    throw InvalidArgument("the recorded run is empty");
  }
  return *std::move(run);
}

namespace detail {

ReplayVerdict check_replay_of(std::string_view name, const WorkflowCode& code,
                              const RecordedRun& run) {
  if (name != run.type) {
    throw InvalidArgument("the recorded run '" + run.id + "' is of workflow '" + run.type +
                          "', and the code is that of '" + std::string(name) + "'");
  }
  std::vector<record::RunAnswer> answers;
  for (const std::string& answer : run.answers) {
    if (!answers.emplace_back().ParseFromString(answer)) {
      throw InvalidArgument("an answer of the recorded run '" + run.id + "' is damaged");
    }
  }
  RunMachine machine(code, {.id = run.id,
                            .type = run.type,
                            .input = run.input,
                            .uid = run.uid,
                            .root_id = run.root_id,
                            .parent_id = run.parent_id,
                            .started_at = run.started_at,
                            .requests_done = run.requests_done,
                            .root_uid = run.root_uid,
                            .answers = std::move(answers),
                            .random_uid = run.random_uid});
  ReplayVerdict verdict;
  try {
    for (; verdict.rows < run.rows.size(); ++verdict.rows) {
      static_cast<void>(machine.replay(row_at(run, verdict.rows)));
    }
    verdict.fits = true;
    verdict.ended = machine.has_ended();
  } catch (const NondeterminismError& error) {
    verdict.complaint = error.what();
  }
  return verdict;
}

}  // namespace detail

}  // namespace holdfast
