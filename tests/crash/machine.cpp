// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/machine.hpp"

#include <iterator>
#include <utility>

#include <holdfast/spawn.hpp>

#include "store_sqlite/page_checksums.hpp"
#include "tests/crash/actors.hpp"

namespace holdfast::testing {

Machine::Machine() : vfs_(detail::page_checksum_vfs(disk.vfs_name())) {}

void Machine::begin_at(const Moment& moment, std::uint64_t seed) {
  seed_sqlite(seed);
  disk.reset(seed, moment.files);
  mark = moment.mark;
  ledger = moment.ledger;
}

std::unique_ptr<Store> Machine::open() {
  ledger.begin_life();
  SqliteOptions options;
  options.sync = sync;
  options.clock = &stage.clock();
  return detail::open_sqlite_store({kPath, vfs_}, options, std::make_unique<Alone>(mark, stage),
                                   checkpoint_pages);
}

void Machine::cut_power(Dice& dice) {
  disk.crash();
  mark.power_cut(dice);
}

Machine::Findings Machine::look(Store& store) {
  Ledger::Audit audit = ledger.audit(read_all(stage, store));
  Findings findings{.lost = audit.lost, .faults = std::move(audit.faults)};
  const CheckReport report = sync_wait(stage, store.check());
  std::copy(report.faults.begin(), report.faults.end(), std::back_inserter(findings.faults));
  return findings;
}

Machine::Moment closed_store(Machine& machine) {
  machine.begin_at({}, 1);
  play(machine.stage, *machine.open(), machine.ledger, {.seed = 1});
  return machine.now();
}

Machine::Moment killed_store(Machine& machine) {
  machine.begin_at(closed_store(machine), 2);
  const auto store = machine.open();
  play(machine.stage, *store, machine.ledger, {.seed = 2});
  machine.disk.kill();  // Closing finds nothing to close.
  return machine.now();
}

}  // namespace holdfast::testing
