// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <holdfast/batch.hpp>
#include <holdfast/commit_outcome.hpp>

namespace holdfast::testing {

/// What a test knows of the batches that it gave to a store, and so of what the store must have.
///
/// Each batch writes a key of its own, its marker. The markers that are found say which batches are
/// there, and in which order; all else must be exactly what those batches make of it.
class Ledger {
 public:
  using Id = std::size_t;

  /// Before the batch goes to the store; adds its marker. An empty one is made up.
  [[nodiscard]] Id enter(Batch& batch, std::string marker = {});
  /// Decided, and not known to be durable.
  void applied(Id id, const CommitOutcome& outcome);
  /// The store has promised it.
  void acknowledged(Id id);
  void acknowledged(Id id, const CommitOutcome& outcome);
  /// Within a catch block: what was thrown says what may have happened.
  void threw(Id id);
  /// A durable read returned it.
  void saw(const Entry& entry);

  /// A store was opened again: its versions are above all that were given.
  void begin_life();

  struct Audit {
    std::size_t found = 0;            ///< Batches.
    std::size_t lost = 0;             ///< Batches that were acknowledged or seen, and are gone.
    std::vector<std::string> faults;  ///< What no power cut excuses.
  };
  /// Compares with all entries of a store, in order. What is there must stay from now on, what is
  /// not must not come back.
  [[nodiscard]] Audit audit(const std::vector<Entry>& entries);

  [[nodiscard]] std::size_t acknowledged_count() const noexcept;

 private:
  enum class Status : std::uint8_t { kUnknown, kPromised, kRefused };
  struct Record {
    std::string marker;
    Batch batch;
    Version version = 0;  // 0: not known.
    std::uint32_t life = 0;
    Status status = Status::kUnknown;
    bool found = false;
  };
  using State = std::map<std::string, Entry, std::less<>>;

  void give(Record& record, Version version);
  void find_markers(const State& there, Audit& audit);
  static void replay(const Record& record, State& state, Audit& audit);
  void check_order(const std::vector<const Record*>& found, Audit& audit) const;

  std::vector<Record> records_;
  std::vector<std::string> faults_;
  std::vector<Version> seen_;
  Version highest_ = 0;       // Given to anyone.
  Version highest_then_ = 0;  // When this life began.
  std::uint32_t life_ = 0;
};

/// The first few of them, a line each.
[[nodiscard]] std::string text_of(const std::vector<std::string>& faults);

}  // namespace holdfast::testing
