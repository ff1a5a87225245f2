// SPDX-License-Identifier: Apache-2.0
// A program outside the tree, built against the installed package.
#include <holdfast/mutex.hpp>

int main() { return holdfast::sync_name() == "basecorosync" ? 0 : 1; }
