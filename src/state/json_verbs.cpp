// SPDX-License-Identifier: Apache-2.0
#include "json_verbs.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/error.hpp>

#include "store/printable.hpp"

namespace holdfast::detail {

namespace json = boost::json;

namespace {

[[noreturn]] void refuse(std::string_view path, std::string_view why) {
  std::string message("the path ");
  throw InvalidArgument(message.append(printable(path)).append(" ").append(why));
}

/// The names in a JSON Pointer: ~1 is a slash, ~0 a tilde.
std::vector<std::string> names_in(std::string_view path) {
  std::vector<std::string> names;
  if (!path.empty() && path.front() != '/') {
    refuse(path, "does not begin with a slash; only the empty one, for the whole, need not");
  }
  for (std::string_view rest = path; !rest.empty();) {
    std::size_t used = 1;
    if (rest.front() == '/') {
      names.emplace_back();
    } else if (rest.front() != '~') {
      names.back() += rest.front();
    } else if (rest.starts_with("~0") || rest.starts_with("~1")) {
      names.back() += rest[1] == '0' ? '~' : '/';
      used = 2;
    } else {
      refuse(path, "has a ~ that is not followed by 0 or 1");
    }
    rest.remove_prefix(used);
  }
  return names;
}

json::value& item_at(json::array& items, const std::string& name, std::string_view path) {
  std::size_t index = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data(), end, index);
  const bool leading_zero = name.size() > 1 && name.front() == '0';
  if (read.ec != std::errc() || read.ptr != end || leading_zero || index >= items.size()) {
    refuse(path, "leads into a list, which has no item " + printable(name));
  }
  return items[index];
}

/// What `path` points to; members that are missing on the way are made, the last one as null.
json::value& make_way(json::value& root, std::string_view path) {
  json::value* here = &root;
  for (const std::string& name : names_in(path)) {
    if (here->is_null()) {
      here->emplace_object();
    }
    if (json::array* items = here->if_array()) {
      here = &item_at(*items, name, path);
    } else if (json::object* members = here->if_object()) {
      here = &(*members)[name];
    } else {
      refuse(path, "leads into something that is neither an object nor a list");
    }
  }
  return *here;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the patch.
void merge(json::value& target, const json::value& changes) {
  if (!changes.is_object()) {
    target = changes;
    return;
  }
  if (!target.is_object()) {
    target.emplace_object();
  }
  json::object& members = target.get_object();
  for (const json::key_value_pair& change : changes.get_object()) {
    if (change.value().is_null()) {
      members.stable_erase(change.key());
    } else {
      merge(members[change.key()], change.value());
    }
  }
}

__extension__ using Wide = __int128;

Wide whole(const json::value& number) {
  return number.is_uint64() ? Wide{number.get_uint64()} : Wide{number.get_int64()};
}

json::value sum_of(const json::value& number, const json::value& by, std::string_view path) {
  if (number.is_double() || by.is_double()) {
    const double sum = number.to_number<double>() + by.to_number<double>();
    if (!std::isfinite(sum)) {
      refuse(path, "has a number that would no longer be finite");
    }
    return sum;
  }
  const Wide sum = whole(number) + whole(by);
  if (sum < std::numeric_limits<std::int64_t>::min() ||
      sum > Wide{std::numeric_limits<std::uint64_t>::max()}) {
    refuse(path, "has a whole number that would no longer fit into 64 bits");
  }
  return sum > Wide{std::numeric_limits<std::int64_t>::max()}
             ? json::value(static_cast<std::uint64_t>(sum))
             : json::value(static_cast<std::int64_t>(sum));
}

json::value push(json::value& list, const JsonVerb& verb) {
  if (list.is_null()) {
    list.emplace_array();
  }
  if (!list.is_array()) {
    refuse(verb.path, "leads to something that is no list to push to");
  }
  list.get_array().push_back(verb.value);
  return list.get_array().size();
}

json::value add(json::value& number, const JsonVerb& verb) {
  if (number.is_null()) {
    number = std::int64_t{0};
  }
  if (!number.is_number()) {
    refuse(verb.path, "leads to something that is no number to add to");
  }
  number = sum_of(number, verb.value, verb.path);
  return number;
}

json::value set_record(json::value& records, const JsonVerb& verb) {
  if (records.is_null()) {
    records.emplace_object();
  }
  if (!records.is_object()) {
    refuse(verb.path, "leads to something that is no object with records");
  }
  records.get_object()[verb.key] = verb.value;
  return nullptr;
}

/// Makes nothing on the way to what is not there.
json::value delete_record(json::value& root, const JsonVerb& verb) {
  json::value copy = root;
  json::value& records = make_way(copy, verb.path);
  if (records.is_null()) {
    return false;
  }
  if (!records.is_object()) {
    refuse(verb.path, "leads to something that is no object with records");
  }
  const bool existed = records.get_object().stable_erase(verb.key) > 0;
  if (existed) {
    root = std::move(copy);
  }
  return existed;
}

class VerbMutator final : public CellMutator {
 public:
  VerbMutator(std::shared_ptr<const json::value> initial, JsonVerb verb)
      : initial_(std::move(initial)), verb_(std::move(verb)) {}

  [[nodiscard]] CellValue next(const CellValue& current) override {
    json::value value = current ? *current : *initial_;
    result_ = apply_verb(value, verb_);
    CellValue next(std::move(value));
    if (!current && *next == *initial_) {
      next.reset();
    }
    return next;
  }
  [[nodiscard]] json::value take_result() { return std::move(result_); }

 private:
  std::shared_ptr<const json::value> initial_;
  JsonVerb verb_;
  json::value result_;
};

}  // namespace

json::value apply_verb(json::value& root, const JsonVerb& verb) {
  using Kind = JsonVerb::Kind;
  switch (verb.kind) {
    case Kind::kPush:
      return push(make_way(root, verb.path), verb);
    case Kind::kAdd:
      return add(make_way(root, verb.path), verb);
    case Kind::kSetRecord:
      return set_record(make_way(root, verb.path), verb);
    case Kind::kDeleteRecord:
      return delete_record(root, verb);
    case Kind::kPatch:
      break;
  }
  merge(root, verb.value);
  return root;
}

Task<json::value> run_verb(std::shared_ptr<CellSlot> slot,
                           std::shared_ptr<const json::value> initial, JsonVerb verb) {
  const auto mutator = std::make_shared<VerbMutator>(std::move(initial), std::move(verb));
  Task<void> mutation = mutate_cell(std::move(slot), mutator);
  co_await mutation;
  co_return mutator->take_result();
}

}  // namespace holdfast::detail
