// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of Holdfast.
#include <holdfast/sync.hpp>
