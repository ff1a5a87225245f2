// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <holdfast/gates.hpp>
#include <holdfast/session.hpp>
#include <holdfast/store.hpp>
#include <holdfast/task.hpp>

#include "args.hpp"
#include "voice.hpp"
#include "wake.hpp"

namespace holdfast::cli {

/// "'a'", "'a', 'b'".
[[nodiscard]] std::string names_of(const std::vector<WantedLock>& locks);

/// Acquires the locks that were asked for on the command line, all or none.
///
/// The session stands for the command, and so it does not go on before this process does, nor do
/// those above it that `holdfast lock` has started: if one of them holds what is asked for here, to
/// wait would never end, and the library says so.
class LockAsker {
 public:
  /// `ancestors`: the sessions above this one.
  LockAsker(const LockArgs& args, const Session& session, Gates& gates,
            const std::vector<std::string>& ancestors, const Voice& voice);

  /// Wakes `ended` at its end, whatever that is.
  [[nodiscard]] Task<std::vector<DurableHold>> ask(const Wake& ended);

 private:
  [[nodiscard]] AcquireOptions options() const;
  [[nodiscard]] Task<std::vector<DurableRequest>> requests();
  [[nodiscard]] Task<void> tell_whom_it_waits_for();

  const LockArgs& args_;
  const Session& session_;
  Store& store_;
  Gates& gates_;
  std::vector<std::string_view> ancestors_;
  const Voice& voice_;
};

}  // namespace holdfast::cli
