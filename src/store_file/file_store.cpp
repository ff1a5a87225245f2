// SPDX-License-Identifier: Apache-2.0
#include <holdfast/file_store.hpp>

#include <utility>

#include "file_backend.hpp"
#include "files.hpp"
#include "opening.hpp"
#include "store/disk_store.hpp"
#include "store/sidecar.hpp"

namespace holdfast {

std::unique_ptr<Store> open_file_store(const std::filesystem::path& folder,
                                       const FileOptions& options) {
  detail::Files files;
  detail::Layout layout = detail::open_folder(files, folder, options.create);
  auto sidecar = std::make_unique<detail::Sidecar>(layout.sidecar());
  auto backend = std::make_unique<detail::FileBackend>(std::move(files), std::move(layout), options,
                                                       std::move(sidecar));
  return detail::make_disk_store(std::move(backend), {.busy_timeout = options.busy_timeout});
}

}  // namespace holdfast
