// SPDX-License-Identifier: Apache-2.0
#include "documents.hpp"

#include <boost/json.hpp>

#include <initializer_list>
#include <utility>

#include <holdfast/store_error.hpp>

#include "base64.hpp"
#include "checksum.hpp"
#include "files.hpp"
#include "json/utf8.hpp"

namespace holdfast::detail {

namespace {

namespace json = boost::json;
using Path = std::filesystem::path;

constexpr std::string_view kStoreKind = "file store";
constexpr std::string_view kJournalKind = "file store journal";

[[noreturn]] void refuse(const Path& file, const std::string& what) {
  throw StoreCorrupt("the file " + quoted(file) + " is damaged: " + what + ". Restore a backup");
}

// --- Checksums -----------------------------------------------------------------------------------

void add(Checksum& sum, const StoreRecord& record) {
  sum.add(record.sequence).add(record.ceiling).add(record.entries).add(record.digest);
  sum.add(record.time.boot_id)
      .add(static_cast<std::uint64_t>(record.time.offset_ns))
      .add(static_cast<std::uint64_t>(record.time.high_water_ns));
}

std::uint64_t check_of(const StoreRecord& record) {
  Checksum sum;
  add(sum.add(kStoreKind), record);
  return sum.value();
}

std::uint64_t check_of(const Journal& journal) {
  Checksum sum;
  add(sum.add(kJournalKind), journal.store);
  for (const Journal::Change& change : journal.changes) {
    sum.add(change.key).add(change.version).add(change.value ? 1 : 0);
    sum.add(change.value ? std::string_view(*change.value) : std::string_view());
  }
  return sum.value();
}

// --- Writing -------------------------------------------------------------------------------------

/// Bytes under one of two names, the first one if they are a text.
void put_bytes(json::object& object, std::string_view text_name, std::string_view base64_name,
               std::string_view bytes) {
  if (is_utf8(bytes)) {
    object[text_name] = bytes;
  } else {
    object[base64_name] = to_base64(bytes, Base64::kPadded);
  }
}

json::object entry_object(std::string_view key, const std::string_view* value, Version version) {
  json::object object;
  put_bytes(object, "key", "key_base64", key);
  object["version"] = version;
  if (value != nullptr) {
    put_bytes(object, "text", "base64", *value);
  } else {
    object["erased"] = true;
  }
  return object;
}

void put_record(json::object& object, const StoreRecord& record) {
  object["sequence"] = record.sequence;
  object["ceiling"] = record.ceiling;
  object["entries"] = record.entries;
  object["digest"] = to_hex(record.digest);
  object["time"] = json::object{{"boot_id", record.time.boot_id},
                                {"offset_ns", record.time.offset_ns},
                                {"high_water_ns", record.time.high_water_ns}};
}

json::object head(std::string_view kind) {
  return json::object{{"holdfast", kind}, {"format", kFileFormat}};
}

std::string finish(json::object object, std::uint64_t check) {
  object["check"] = to_hex(check);
  return json::serialize(object) + "\n";
}

// --- Reading -------------------------------------------------------------------------------------

/// A JSON object of one file, whose members are there and of their kind, or the file is damaged.
class Members {
 public:
  Members(const json::object& object, const Path& file) : object_(object), file_(file) {}

  [[nodiscard]] const json::value* find(std::string_view name) const {
    return object_.if_contains(name);
  }
  [[nodiscard]] std::string_view text(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_string()) {
      refuse_member(name, "a text");
    }
    return value->get_string();
  }
  template <class Number>
  [[nodiscard]] Number number(std::string_view name) const {
    const json::value* value = find(name);
    json::error_code error;
    const auto number = value == nullptr ? Number{} : value->to_number<Number>(error);
    if (value == nullptr || error) {
      refuse_member(name, "a number");
    }
    return number;
  }
  [[nodiscard]] std::string bytes(std::string_view text_name, std::string_view base64_name) const {
    if (find(text_name) != nullptr) {
      return std::string(text(text_name));
    }
    auto bytes = from_base64(text(base64_name), Base64::kPadded);
    if (!bytes) {
      refuse_member(base64_name, "base64");
    }
    return *std::move(bytes);
  }
  [[nodiscard]] Members object(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_object()) {
      refuse_member(name, "an object");
    }
    return Members(value->get_object(), file_);
  }
  [[nodiscard]] const json::array& array(std::string_view name) const {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_array()) {
      refuse_member(name, "a list");
    }
    return value->get_array();
  }
  void check(std::uint64_t sum) const {
    if (text("check") != to_hex(sum)) {
      refuse(file_, "its checksum does not fit");
    }
  }
  [[nodiscard]] const Path& file() const noexcept { return file_; }

 private:
  [[noreturn]] void refuse_member(std::string_view name, std::string_view kind) const {
    refuse(file_, "there is no \"" + std::string(name) + "\" that is " + std::string(kind));
  }

  const json::object& object_;
  const Path& file_;
};

json::value parse(std::string_view text, const Path& file) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    refuse(file, "it is no JSON object (" + (error ? error.message() : "another value") + ")");
  }
  return value;
}

/// Before all else, as all else may differ in another format.
void check_format(const Members& members) {
  const auto format = members.number<std::uint64_t>("format");
  if (format > kFileFormat) {
    throw NewerFormat("the file " + quoted(members.file()) +
                      " was written by a newer version of Holdfast: it has format " +
                      std::to_string(format) + ", and this version reads up to " +
                      std::to_string(kFileFormat) + ". Use that version");
  }
  if (format != kFileFormat) {
    refuse(members.file(), "there is no format " + std::to_string(format));
  }
}

StoreRecord record_of(const Members& members) {
  StoreRecord record;
  record.sequence = members.number<std::uint64_t>("sequence");
  record.ceiling = members.number<std::uint64_t>("ceiling");
  record.entries = members.number<std::uint64_t>("entries");
  const std::string_view digest = members.text("digest");
  record.digest = from_hex(digest);
  if (to_hex(record.digest) != digest) {
    refuse(members.file(), "its \"digest\" is no sum");
  }
  const Members time = members.object("time");
  record.time.boot_id = time.text("boot_id");
  record.time.offset_ns = time.number<std::int64_t>("offset_ns");
  record.time.high_water_ns = time.number<std::int64_t>("high_water_ns");
  return record;
}

Journal::Change change_of(const Members& members) {
  Journal::Change change;
  change.key = members.bytes("key", "key_base64");
  change.version = members.number<std::uint64_t>("version");
  if (members.find("erased") == nullptr) {
    change.value = members.bytes("text", "base64");
  }
  return change;
}

}  // namespace

std::uint64_t check_of(std::string_view key, std::string_view value, Version version) noexcept {
  return Checksum().add(key).add(version).add(value).value();
}

std::string to_text(const StoreRecord& record) {
  json::object object = head(kStoreKind);
  put_record(object, record);
  return finish(std::move(object), check_of(record));
}

std::string to_text(const Journal& journal) {
  json::object object = head(kJournalKind);
  json::object store;
  put_record(store, journal.store);
  object["store"] = std::move(store);
  json::array changes;
  changes.reserve(journal.changes.size());
  for (const Journal::Change& change : journal.changes) {
    const std::string_view value = change.value ? *change.value : std::string_view();
    changes.push_back(entry_object(change.key, change.value ? &value : nullptr, change.version));
  }
  object["changes"] = std::move(changes);
  return finish(std::move(object), check_of(journal));
}

std::string entry_text(std::string_view key, std::string_view value, Version version) {
  return finish(entry_object(key, &value, version), check_of(key, value, version));
}

StoreRecord to_store_record(std::string_view text, const Path& file) {
  const json::value document = parse(text, file);
  const Members members(document.get_object(), file);
  if (members.find("holdfast") == nullptr) {
    throw NotAStore(quoted(file) + " is no file of Holdfast: choose another folder for the store");
  }
  if (members.text("holdfast") != kStoreKind) {
    refuse(file, "it is not of a " + std::string(kStoreKind));
  }
  check_format(members);
  StoreRecord record = record_of(members);
  members.check(check_of(record));
  return record;
}

Journal to_journal(std::string_view text, const Path& file) {
  const json::value document = parse(text, file);
  const Members members(document.get_object(), file);
  if (members.text("holdfast") != kJournalKind) {
    refuse(file, "it is no " + std::string(kJournalKind));
  }
  check_format(members);
  Journal journal{record_of(members.object("store")), {}};
  for (const json::value& change : members.array("changes")) {
    if (!change.is_object()) {
      refuse(file, "a change is no object");
    }
    journal.changes.push_back(change_of(Members(change.get_object(), file)));
  }
  members.check(check_of(journal));
  return journal;
}

StoredEntry to_entry(std::string_view text, const Path& file) {
  const json::value document = parse(text, file);
  const Members members(document.get_object(), file);
  StoredEntry stored;
  stored.entry.key = members.bytes("key", "key_base64");
  stored.entry.version = members.number<std::uint64_t>("version");
  stored.entry.value = members.bytes("text", "base64");
  stored.check = check_of(stored.entry.key, stored.entry.value, stored.entry.version);
  members.check(stored.check);
  return stored;
}

}  // namespace holdfast::detail
