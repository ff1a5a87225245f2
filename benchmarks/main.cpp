// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

int main(int argc, char** argv) { return holdfast::bench::run(argc, argv); }
