// Which result of a candidate answers which of its base: cells of one experiment and seed that saw
// the same data. What finds no partner becomes a row that names it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gate/verdict/comparison.h"
#include "reports/result/result.h"

namespace mixerbench::gate {

// One report, or the cells of one.
struct Side {
  std::string name;
  std::span<const reports::CellResult> cells;
  // Paths of configs that its suite chooses over (`sweep.select`): cells whose configs differ in
  // nothing else compete.
  std::vector<std::string> chosen_over = {};
};

// Both ran: completed, or failed in a way that counts as chance.
struct CellPair {
  const reports::CellResult* base;
  const reports::CellResult* candidate;
};

// Follows the name of an experiment's fresh seeds.
inline constexpr std::string_view kFreshSuffix = " (fresh seeds)";

// All seeds of one experiment; those of a sweep and the fresh ones of its chosen settings are two.
struct Experiment {
  std::string id;
  std::string cell;             // the base's name of it
  std::string kind;             // "train" or "throughput"
  bool is_fresh = false;        // seeds that report what others chose (`sweep.select.reseed`)
  std::vector<CellPair> pairs;  // by seed
};

struct Pairing {
  std::vector<Experiment> experiments;  // by name and kind
  std::vector<Row> rows;                // missing, not comparable, only in the candidate
  std::vector<Note> notes;
  std::int64_t hashes_equal = 0, hashes_compared = 0;
};

Pairing PairCells(const Side& base, const Side& candidate);

// True for a cell whose outcome counts: completed, or failed.
bool Ran(const reports::CellResult& cell);

SideFacts FactsOf(const Side& side);

// A row of the experiment with its seeds.
Row RowOf(const Experiment& experiment, Gate gate, std::string metric);

}  // namespace mixerbench::gate
