// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

namespace holdfast {

/// Cells of a store as tools see them, that look after those of a program from outside: by key, as
/// JSON, with the version of the write that made them so. `Cell` is for programs.

/// Where a cell lives.
struct CellPlace {
  std::string scope;  ///< "request", "session", "user", "org", "execution", "workflow" or "global".
  std::string id;     ///< Whose; empty for "global".
  std::string name;

  bool operator==(const CellPlace&) const = default;
};
/// The place that `key` stands for; nothing if no scope has a cell with this key.
[[nodiscard]] std::optional<CellPlace> place_of_cell(std::string_view key);

struct StoredCell {
  std::string key;
  Version version = 0;
  boost::json::value value;
};

/// The cell; nothing if it was not written, or was erased. Throws `StoreCorrupt` and `NewerFormat`
/// for what is there and no cell.
[[nodiscard]] Task<std::optional<StoredCell>> inspect_cell(Store& store, std::string_view key);

struct StoredCellPage {
  std::vector<StoredCell> cells;  ///< In the order of their keys' bytes.
  bool more = false;              ///< Go on with the key of the last one as `after`.
};
/// Cells whose keys begin with `prefix`, which is "cell/" or begins with it. Throws as
/// `inspect_cell`, naming the key.
[[nodiscard]] Task<StoredCellPage> list_cells(Store& store, std::string_view prefix,
                                              const ScanOptions& options = {});

/// What must be there for a change to be made.
class CellExpectation {
 public:
  /// Whatever it is.
  constexpr CellExpectation() noexcept = default;
  [[nodiscard]] static constexpr CellExpectation absent() noexcept { return {Kind::kAbsent, 0}; }
  [[nodiscard]] static constexpr CellExpectation at(Version version) noexcept {
    return {Kind::kVersion, version};
  }

  [[nodiscard]] constexpr bool is_anything() const noexcept { return kind_ == Kind::kAnything; }
  /// Of what has this version, or is not there.
  [[nodiscard]] constexpr bool holds(std::optional<Version> version) const noexcept {
    return kind_ == Kind::kAnything ||
           (kind_ == Kind::kAbsent ? !version.has_value() : version == version_);
  }

 private:
  enum class Kind : std::uint8_t { kAnything, kAbsent, kVersion };
  constexpr CellExpectation(Kind kind, Version version) noexcept : kind_(kind), version_(version) {}

  Kind kind_ = Kind::kAnything;
  Version version_ = 0;
};

/// What came of a change.
struct CellChange {
  bool made = false;               ///< False: something else is there than was expected.
  std::optional<Version> before;   ///< What was there; nothing if there was no cell.
  std::optional<Version> version;  ///< What is there now.
  /// Its value, if the change was made and there is one.
  std::optional<boost::json::value> value;
};

/// Makes it `value`. As with `Cell`, a change that makes no difference writes nothing, and so keeps
/// the version; but what expects something always writes, so that of those who name one version one
/// alone succeeds. Throws what `Cell::set` does.
[[nodiscard]] Task<CellChange> set_cell(Store& store, std::string_view key,
                                        boost::json::value value,
                                        const CellExpectation& expected = {});
/// Merges `changes` into it, as `Cell::patch` does.
[[nodiscard]] Task<CellChange> patch_cell(Store& store, std::string_view key,
                                          boost::json::value changes,
                                          const CellExpectation& expected = {});
/// Forgets it, also if it is damaged. One that is not there is as good as erased.
[[nodiscard]] Task<CellChange> erase_cell(Store& store, std::string_view key,
                                          const CellExpectation& expected = {});

/// Where a text stops being JSON.
struct JsonFault {
  std::size_t line = 1;
  std::size_t column = 1;  ///< In letters.
  std::string reason;
};
/// `text` as a cell would read it again: whole numbers of 64 bits, fractions to the last bit, at
/// most 64 levels.
[[nodiscard]] std::variant<boost::json::value, JsonFault> parse_cell_value(std::string_view text);

}  // namespace holdfast
