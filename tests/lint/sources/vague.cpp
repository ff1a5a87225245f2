// SPDX-License-Identifier: Apache-2.0
class LockManager {};
struct [[nodiscard]] StringUtils {};
using WaitHelper = int;
struct UtilisationShare {};
