// SPDX-License-Identifier: Apache-2.0
namespace {
// [same]
int same() {
  return 1;
}
// [same]

  // [indented]
  int indented();
  // [indented]

// [once]
int once();
}  // namespace
