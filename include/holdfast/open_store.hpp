// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/store.hpp>

namespace holdfast {

/// Opens the store that `url` names; link `holdfast::stores`.
///
/// ```
/// auto store = open_store("sqlite:/var/lib/app/state.db?sync=relaxed");
/// ```
///
/// | URL | store | options |
/// |---|---|---|
/// | `memory:` | of this object alone, gone with it | |
/// | `file:DIR` | readable JSON files, for small state | `busy_timeout`, `create` |
/// | `sqlite:PATH` | one SQLite file, for the processes of one host | `busy_timeout`, `create`,
/// `sync` |
///
/// `busy_timeout` is a time such as `5s` or `300ms`; `sync` is `strict` (the default) or `relaxed`;
/// with `create=no` a store that is not there is a `NoSuchStore`, otherwise it is made.
/// In a path, `%3F` stands for a question mark and `%25` for a percent sign. What cannot be
/// understood is an `InvalidArgument`, a kind that was left out of this build `Unsupported`; for
/// the rest see `open_sqlite_store` and `open_file_store`.
[[nodiscard]] std::unique_ptr<Store> open_store(std::string_view url);

/// The same, but never makes a store: as with `create=no`. A store in memory is always made, and so
/// a `NoSuchStore` here.
[[nodiscard]] std::unique_ptr<Store> open_existing_store(std::string_view url);

/// `url` for logs and messages: `***` for a password before an `@`, and for options that by their
/// names are secrets. Takes any text, and rather hides too much.
[[nodiscard]] std::string redacted_url(std::string_view url);

}  // namespace holdfast
