// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <holdfast/error.hpp>

namespace holdfast {

/// The store, or this build, cannot do what was asked; the message names the capability.
class Unsupported final : public detail::ErrorOf<ErrorCode::kUnsupported> {
  using ErrorOf::ErrorOf;
};

/// There is something at the address, but no Holdfast store. It was left as it is.
class NotAStore final : public detail::ErrorOf<ErrorCode::kNotAStore> {
  using ErrorOf::ErrorOf;
};

/// The store was written by a newer version of Holdfast. It was left as it is.
class NewerFormat final : public detail::ErrorOf<ErrorCode::kNewerFormat> {
  using ErrorOf::ErrorOf;
};

/// There is no store at the address, and none was to be made.
class NoSuchStore final : public detail::ErrorOf<ErrorCode::kNoSuchStore> {
  using ErrorOf::ErrorOf;
};

/// The system does not let this user read or write there. Nothing was changed.
class NoAccess final : public detail::ErrorOf<ErrorCode::kNoAccess> {
  using ErrorOf::ErrorOf;
};

/// Another process is in the way, or the store cannot be reached. Nothing happened: try again.
class StoreBusy final : public detail::ErrorOf<ErrorCode::kStoreBusy> {
  using ErrorOf::ErrorOf;
};

/// No space left. Nothing happened, and nothing is lost: free some space, then try again.
class StoreFull final : public detail::ErrorOf<ErrorCode::kStoreFull> {
  using ErrorOf::ErrorOf;
};

/// Stored bytes are not what was written; the message says where. Restore a backup.
class StoreCorrupt final : public detail::ErrorOf<ErrorCode::kStoreCorrupt> {
  using ErrorOf::ErrorOf;
};

/// The disk failed earlier, so this store object takes and tells nothing more: open it again.
class StoreFailed final : public detail::ErrorOf<ErrorCode::kStoreFailed> {
  using ErrorOf::ErrorOf;
};

/// The SQL of a transaction did what it must not, or its transaction was over before its end. The
/// message says what; nothing of the transaction happened.
class TransactionRefused final : public detail::ErrorOf<ErrorCode::kTransactionRefused> {
  using ErrorOf::ErrorOf;
};

/// The disk or the connection failed in the middle: it may or may not have happened. Open the store
/// again, and read.
class OutcomeUnknown final : public detail::ErrorOf<ErrorCode::kOutcomeUnknown> {
  using ErrorOf::ErrorOf;
};

}  // namespace holdfast
