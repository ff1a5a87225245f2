// SPDX-License-Identifier: Apache-2.0
#include <holdfast/open_store.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <holdfast/memory_store.hpp>
#ifdef HOLDFAST_HAS_STORE_FILE
#include <holdfast/file_store.hpp>
#endif
#ifdef HOLDFAST_HAS_STORE_SQLITE
#include <holdfast/sqlite_store.hpp>
#endif

#include "store_url.hpp"

namespace holdfast {

namespace {

using detail::StoreUrl;

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text.empty() ? "none" : text;
}

/// Hands each option of `url` to the function of its name.
using OptionReaders = std::vector<std::pair<std::string, std::function<void(const std::string&)>>>;

void read_options(const StoreUrl& url, const OptionReaders& readers) {
  for (const auto& [name, value] : url.options) {
    const auto reader = std::find_if(readers.begin(), readers.end(),
                                     [&](const auto& one) { return one.first == name; });
    if (reader == readers.end()) {
      std::vector<std::string> known;
      for (const auto& one : readers) {
        known.push_back(one.first);
      }
      throw InvalidArgument("the store URL '" + url.text + "' has an unknown option '" + name +
                            "'; a " + url.scheme + ": store knows " + quoted_list(known));
    }
    reader->second(value);
  }
}

void require_path(const StoreUrl& url, const char* what) {
  if (url.path.empty()) {
    throw InvalidArgument("the store URL '" + url.text + "' has no path; write " + url.scheme +
                          ":" + what);
  }
}

/// Whether a store may be made that is not there; what the URL says can only forbid it.
enum class Create : std::uint8_t { kMay, kMustNot };

[[maybe_unused]] bool parse_create(const std::string& value, Create create) {
  if (value != "yes" && value != "no") {
    throw InvalidArgument("create: '" + value + "' is no answer; write yes or no");
  }
  return value == "yes" && create == Create::kMay;
}

std::unique_ptr<Store> open_memory(const StoreUrl& url, Create create) {
  read_options(url, {});
  if (!url.path.empty()) {
    throw InvalidArgument("the store URL '" + url.text +
                          "' has a path, and a store in memory has none; write memory:");
  }
  if (create == Create::kMustNot) {
    throw NoSuchStore(
        "a memory: store is in the program that makes it, and gone with it: there is "
        "none to open. Give the URL of a store on a disk");
  }
  return open_memory_store();
}

#ifdef HOLDFAST_HAS_STORE_FILE
std::unique_ptr<Store> open_file(const StoreUrl& url, [[maybe_unused]] Create create) {
  FileOptions options;
  read_options(url, {{"busy_timeout", [&](const std::string& value) {
                        options.busy_timeout = detail::parse_duration(value, "busy_timeout");
                      }}});
  require_path(url, "DIR");
  return open_file_store(url.path, options);
}
#endif

#ifdef HOLDFAST_HAS_STORE_SQLITE
Sync parse_sync(const std::string& value) {
  if (value == "strict") {
    return Sync::kStrict;
  }
  if (value == "relaxed") {
    return Sync::kRelaxed;
  }
  throw InvalidArgument("sync: '" + value + "' is no level; write strict or relaxed");
}

std::unique_ptr<Store> open_sqlite(const StoreUrl& url, Create create) {
  SqliteOptions options;
  options.create = create == Create::kMay;
  read_options(
      url,
      {{"sync", [&](const std::string& value) { options.sync = parse_sync(value); }},
       {"create", [&](const std::string& value) { options.create = parse_create(value, create); }},
       {"busy_timeout", [&](const std::string& value) {
          options.busy_timeout = detail::parse_duration(value, "busy_timeout");
        }}});
  require_path(url, "PATH");
  return open_sqlite_store(url.path, options);
}
#endif

struct Kind {
  std::string_view scheme;
  std::unique_ptr<Store> (*open)(const StoreUrl&, Create);  ///< Null: left out of this build.
};

constexpr std::array<Kind, 3> kKinds{{
    {"memory", open_memory},
#ifdef HOLDFAST_HAS_STORE_FILE
    {"file", open_file},
#else
    {"file", nullptr},
#endif
#ifdef HOLDFAST_HAS_STORE_SQLITE
    {"sqlite", open_sqlite},
#else
    {"sqlite", nullptr},
#endif
}};

std::unique_ptr<Store> open(std::string_view url, Create create) {
  const StoreUrl parsed = detail::parse_store_url(url);
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (kind.scheme != parsed.scheme) {
      known.push_back(std::string(kind.scheme) + ":");
      continue;
    }
    if (kind.open == nullptr) {
      throw Unsupported("this build of Holdfast was made without " + parsed.scheme +
                        ": stores, which '" + parsed.text + "' needs");
    }
    return kind.open(parsed, create);
  }
  throw InvalidArgument("the store URL '" + parsed.text + "' has an unknown scheme '" +
                        parsed.scheme + "'; known are " + quoted_list(known));
}

}  // namespace

std::unique_ptr<Store> open_store(std::string_view url) { return open(url, Create::kMay); }

std::unique_ptr<Store> open_existing_store(std::string_view url) {
  return open(url, Create::kMustNot);
}

}  // namespace holdfast
