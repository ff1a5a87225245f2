// SPDX-License-Identifier: Apache-2.0
#include <holdfast/sqlite_store.hpp>

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "database.hpp"
#include "page_checksums.hpp"
#include "private_file.hpp"
#include "sqlite_backend.hpp"
#include "sqlite_store_parts.hpp"
#include "store/disk_store.hpp"
#include "store/sidecar.hpp"

namespace holdfast {

namespace detail {

std::unique_ptr<Store> open_sqlite_store(const DatabaseFile& file, const SqliteOptions& options,
                                         std::unique_ptr<Neighbours> neighbours,
                                         int checkpoint_pages) {
  if (options.busy_timeout < Duration::zero()) {
    throw InvalidArgument("busy_timeout: " + std::to_string(options.busy_timeout.count()) +
                          " ns is negative; give zero or more");
  }
  auto backend =
      std::make_unique<SqliteBackend>(file, options, std::move(neighbours), checkpoint_pages);
  CommitterLimits limits;
  limits.busy_timeout = options.busy_timeout;
  return make_disk_store(std::move(backend), limits);
}

}  // namespace detail

namespace {

std::filesystem::path with_suffix(const std::filesystem::path& path, const char* suffix) {
  return path.string() + suffix;
}

/// The file that is meant, whatever the working directory becomes and links lead to.
std::filesystem::path resolved(const std::filesystem::path& path) {
  if (path.empty()) {
    throw InvalidArgument("the path of an SQLite store is empty; give the path of a file");
  }
  std::error_code error;
  // Absolute first: of a relative path that leads nowhere yet the other would leave it so.
  std::filesystem::path found = std::filesystem::absolute(path, error);
  if (!error) {
    found = std::filesystem::weakly_canonical(found, error);
  }
  if (error) {
    detail::refuse_path(path, error);
  }
  return found;
}

void require_store_file(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (error) {
    detail::refuse_path(path, error);
  }
  if (!exists) {
    throw NoSuchStore("there is no store at " + path.string() + ", and none was to be made");
  }
  // As a creation leaves it that was cut off.
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) == 0) {
    throw NoSuchStore(path.string() + " is empty: no store was made there yet");
  }
}

/// Before anything is made beside it: a file that is no store stays alone.
void refuse_foreign_file(const std::filesystem::path& path) {
  detail::check_private_file(path);
  const bool begun_by_us = std::filesystem::exists(with_suffix(path, "-hold"));
  if (!begun_by_us && std::filesystem::file_size(path) > 0) {
    detail::refuse_foreign_database(path.string());
  }
}

enum class Ballast : std::uint8_t { kKept, kDropped };

std::unique_ptr<Store> open_with(Ballast ballast, const std::filesystem::path& file,
                                 const SqliteOptions& options) {
  auto sidecar = std::make_unique<detail::Sidecar>(with_suffix(file, "-hold"));
  detail::Sidecar& beside = *sidecar;
  if (ballast == Ballast::kDropped) {
    beside.drop_ballast();
  }
  const detail::DatabaseFile database{file.string(), detail::page_checksum_vfs("")};
  auto store = detail::open_sqlite_store(database, options, std::move(sidecar));
  if (ballast == Ballast::kKept) {
    beside.keep_ballast();
  }
  return store;
}

}  // namespace

std::unique_ptr<Store> open_sqlite_store(const std::filesystem::path& path,
                                         const SqliteOptions& options) {
  const std::filesystem::path file = resolved(path);
  if (!options.create) {
    require_store_file(file);
  }
  if (!options.create || !detail::create_private_file(file)) {
    refuse_foreign_file(file);
  }
  try {
    return open_with(Ballast::kKept, file, options);
  } catch (const StoreFull&) {
    // SQLite needs a little space even to read. It is there for this.
    return open_with(Ballast::kDropped, file, options);
  }
}

}  // namespace holdfast
