// What a run is going to do, for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "harness/run/eta.h"
#include "harness/run/options.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"
#include "reports/result/result.h"

namespace mixerbench::harness {

using CellResults = std::vector<std::optional<reports::CellResult>>;

// "mqar/gla/lr=0.01 seed 2": a cell for people.
std::string Label(const Cell& cell);

// "1 cell", "2 cells".
std::string Counted(std::size_t count, const std::string& noun);

// Whether a cell is of this shard. An id decides, so that every shard finds the same split by
// itself: that of the training, so that what uses its weights stays with it.
bool InShard(const Cell& cell, const Shard& shard);

// The cells that have no result which may stand, of one shard.
std::vector<std::size_t> FindPending(const std::vector<Cell>& cells, const Shard& shard,
                                     const CellResults& done);

// "10 cells: 4 settings x 2 seeds (0, 1), 2 speed curves; 3 done, 7 to run, 2 at once", and how
// long these may take when finished cells tell.
std::string Summarize(const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
                      const CellResults& done, std::size_t num_workers,
                      std::int64_t cells_per_worker);

// The training that needs most memory before anything of a mixer's own is counted
// (training/memory_need.h); nothing when none is pending.
struct LargestCell {
  std::string name;
  std::int64_t bytes = 0;
};
std::optional<LargestCell> FindLargest(const std::vector<Cell>& cells,
                                       const std::vector<std::size_t>& pending, at::Device device,
                                       const Registries& registries);

// What waits to be run, for an Eta.
std::vector<Eta::Waiting> WaitingOf(const std::vector<Cell>& cells,
                                    const std::vector<std::size_t>& pending);

// How long cells take by the completed ones.
Eta EtaFrom(const std::vector<Cell>& cells, const CellResults& done, std::size_t num_workers,
            std::int64_t cells_per_worker);
Eta::CellType TypeOf(const Cell& cell);

}  // namespace mixerbench::harness
