// SPDX-License-Identifier: Apache-2.0
// Boost.JSON itself, compiled here once for all that use it: two copies in one program would clash,
// and a library of it would have to be installed.
#include <boost/json/src.hpp>
