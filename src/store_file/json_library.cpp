// SPDX-License-Identifier: Apache-2.0
// Boost.JSON itself, compiled here once, so that no library of it is needed to link or to run.
#include <boost/json/src.hpp>
