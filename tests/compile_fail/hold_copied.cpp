// SPDX-License-Identifier: Apache-2.0
#include <holdfast/hold.hpp>

holdfast::Hold copy(const holdfast::Hold& hold) { return hold; }
