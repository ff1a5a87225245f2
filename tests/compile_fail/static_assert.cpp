// SPDX-License-Identifier: Apache-2.0
#ifdef HOLDFAST_SAMPLE_IS_GOOD
constexpr bool kGood = true;
#else
constexpr bool kGood = false;
#endif
static_assert(kGood, "says what to write");
