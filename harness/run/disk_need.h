// What a run writes into its folder, before any of it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "harness/run/options.h"
#include "harness/suite/cell.h"
#include "harness/suite/registries.h"

namespace mixerbench::harness {

// An upper bound for what cells usually leave, in bytes beside those that are there. Doubles: sizes
// from a suite may not fit in 64 bits.
struct DiskNeed {
  double results = 0;      // and the reports of all cells
  double checkpoints = 0;  // of the largest trainings that may run at once
  double weights = 0;      // that are kept, also only while other cells need them
  double items = 0;        // --log-items

  double total() const { return results + checkpoints + weights + items; }
  // What surely stays. Weights have their size. No finished folder of 70 had less than an eighth of
  // `results`, the smallest 28.8 KiB a cell; items, whose lines are counted at most, are held to
  // the same share. Checkpoints come and go, and a cell that cannot write one goes on.
  double least() const { return weights + (results + items) / 8; }
};

// Of `pending` among `cells`, `at_once` of which run at once on `device`, in the folder `out`,
// which need not exist. A training that memory cannot hold, or whose model cannot be built, leaves
// a result alone.
DiskNeed EstimateDisk(const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
                      std::size_t at_once, const CellOptions& options, at::Device device,
                      const std::filesystem::path& out, const Registries& registries);

// "250 MiB to 1.2 GiB (results 3 MiB, checkpoints 1 GiB, weights 200 MiB)".
std::string DescribeDisk(const DiskNeed& need);

}  // namespace mixerbench::harness
