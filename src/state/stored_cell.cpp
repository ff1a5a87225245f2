// SPDX-License-Identifier: Apache-2.0
#include <holdfast/stored_cell.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <holdfast/error.hpp>

#include "cell_key.hpp"
#include "cell_slot.hpp"
#include "envelope.hpp"
#include "json/exact_parse.hpp"
#include "json_verbs.hpp"
#include "store/key_part.hpp"
#include "store/printable.hpp"

namespace holdfast {

namespace json = boost::json;

namespace {

using detail::CellMutator;
using detail::CellValue;

class Patch final : public CellMutator {
 public:
  explicit Patch(json::value changes)
      : verb_{detail::JsonVerb::Kind::kPatch, {}, {}, std::move(changes)} {}

  [[nodiscard]] CellValue next(const CellValue& current) override {
    json::value value = current.value_or(json::value());
    static_cast<void>(detail::apply_verb(value, verb_));
    CellValue next(std::move(value));
    if (!current && next->is_null()) {
      next.reset();  // Still what it was before the first write.
    }
    return next;
  }

 private:
  detail::JsonVerb verb_;
};

StoredCell cell_of(const Entry& entry) {
  return {entry.key, entry.version, detail::Envelope(entry).value()};
}

Task<std::optional<StoredCell>> inspect(Store& store, std::string key) {
  const std::optional<Entry> entry = co_await store.get(key);
  std::optional<StoredCell> cell;
  if (entry) {
    cell = cell_of(*entry);
  }
  co_return cell;
}

Task<StoredCellPage> read_page(Task<Page> scan) {
  const Page page = co_await scan;
  StoredCellPage cells;
  cells.more = page.more;
  cells.cells.reserve(page.entries.size());
  for (const Entry& entry : page.entries) {
    cells.cells.push_back(cell_of(entry));
  }
  co_return cells;
}

/// `mutator` null: erases.
HOLDFAST_COROUTINE_WRAPPER Task<CellChange> change(Store& store, std::string_view key,
                                                   std::shared_ptr<CellMutator> mutator,
                                                   CellExpectation expected) {
  require_capabilities(store, {.atomic = true}, "a change of a cell");
  const auto core = std::make_shared<detail::StateCore>(&store, StateOptions{});
  return detail::change_in_store(core->slot(detail::checked_cell_key(key)), std::move(mutator),
                                 expected);
}

std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('/'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

JsonFault fault_at(std::string_view text, std::size_t used, std::string reason) {
  JsonFault fault;
  fault.reason = std::move(reason);
  for (const char byte : text.substr(0, used)) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
    fault.line += byte == '\n' ? 1 : 0;
    fault.column = byte == '\n' ? 1 : fault.column + (continues ? 0 : 1);
  }
  return fault;
}

std::string reason_of(const json::error_code& error) {
  switch (static_cast<json::error>(error.value())) {
    case json::error::incomplete:
      return "it ends too early";
    case json::error::extra_data:
      return "nothing is expected here any more";
    case json::error::too_deep:
      return "more than 64 levels";
    case json::error::exponent_overflow:
      return "a number that is too large";
    default:
      return error.message();
  }
}

}  // namespace

std::optional<CellPlace> place_of_cell(std::string_view key) {
  constexpr std::array<std::string_view, 6> kScopes{"request", "session",   "user",
                                                    "org",     "execution", "workflow"};
  if (!key.starts_with(detail::kCellPrefix)) {
    return std::nullopt;
  }
  std::string_view rest = key.substr(detail::kCellPrefix.size());
  const std::string_view scope = take_part(rest);
  const bool has_id = std::find(kScopes.begin(), kScopes.end(), scope) != kScopes.end();
  if (!has_id && scope != "global") {
    return std::nullopt;
  }
  const auto id = detail::text_of_key_part(has_id ? take_part(rest) : std::string_view());
  const auto name = detail::text_of_key_part(rest);
  if (!id || !name || name->empty() || id->empty() == has_id) {
    return std::nullopt;
  }
  return CellPlace{std::string(scope), *id, *name};
}

Task<std::optional<StoredCell>> inspect_cell(Store& store, std::string_view key) {
  return inspect(store, detail::checked_cell_key(key));
}

Task<StoredCellPage> list_cells(Store& store, std::string_view prefix, const ScanOptions& options) {
  if (!prefix.starts_with(detail::kCellPrefix)) {
    throw InvalidArgument("there are no cells below " + detail::printable(prefix) +
                          ": the keys of cells begin with \"cell/\"");
  }
  return read_page(store.scan(prefix, options));
}

Task<CellChange> set_cell(Store& store, std::string_view key, json::value value,
                          const CellExpectation& expected) {
  return change(store, key, detail::replace_with(std::move(value)), expected);
}

Task<CellChange> patch_cell(Store& store, std::string_view key, json::value changes,
                            const CellExpectation& expected) {
  return change(store, key, std::make_shared<Patch>(std::move(changes)), expected);
}

Task<CellChange> erase_cell(Store& store, std::string_view key, const CellExpectation& expected) {
  return change(store, key, nullptr, expected);
}

std::variant<json::value, JsonFault> parse_cell_value(std::string_view text) {
  json::error_code error;
  std::size_t used = 0;
  json::value value = detail::exact_parse(text, detail::kCellDepthMax, error, used);
  if (error) {
    return fault_at(text, used, reason_of(error));
  }
  return value;
}

}  // namespace holdfast
