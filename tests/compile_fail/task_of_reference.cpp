// SPDX-License-Identifier: Apache-2.0
#include <holdfast/task.hpp>

holdfast::Task<int&> refer(int& value) { co_return value; }
