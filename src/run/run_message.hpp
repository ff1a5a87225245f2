// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <run.pb.h>

#include "run_machine.hpp"

namespace holdfast::detail {

/// A message to a run, whose uid is added by whoever sends it.
[[nodiscard]] inline record::RunMessage message_of(record::RunMessage::Kind kind,
                                                   record::RunEvent event) {
  record::RunMessage message;
  message.set_format(kRunFormat);
  message.set_kind(kind);
  *message.mutable_event() = std::move(event);
  return message;
}

}  // namespace holdfast::detail
