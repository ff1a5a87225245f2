// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <holdfast/mutex.hpp>
#include <holdfast/random.hpp>
