// The gates without noise: data (G0), parity of what was timed (G1), the first steps (G2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gate/verdict/comparison.h"
#include "gate/verdict/pairing.h"

namespace mixerbench::gate {

// How two trainings with one seed compare.
struct Replay {
  bool same_bits = false;                        // every loss, validation and test score
  std::optional<std::int64_t> first_difference;  // step
  std::optional<double> early_deviation;  // largest relative one of the loss in the first steps
  bool same_code = false;
  bool same_machine = false;  // device, libraries and build: the same code gives the same bits
};

Replay ReplayOf(const CellPair& pair, std::int64_t first_steps);

std::vector<Row> DataRows(const Pairing& pairing);
std::vector<Row> NumericsRows(const std::vector<Experiment>& experiments);

// How the seeds of one training replay, the worst first.
enum class ReplayKind {
  kBeyond,       // the first losses are off by more than the tolerance
  kScoresLost,   // trained bit by bit alike, and scored lower by more than the accuracy margin
  kUnexplained,  // other bits from the same code on the same machine
  kUnknown,      // other bits, and no loss of the first steps was kept
  kWithin,       // other bits, within the tolerance, or on another device
  kScores,       // trained bit by bit alike, and scored otherwise, within the margin
  kEqual,        // bit by bit
};

struct ReplayRow {
  ReplayKind kind;
  bool has_all_seeds;  // of the experiment: none ended otherwise, or before it was measured
  Row row;             // kUnknown and kWithin are inconclusive until SettleReplays
};

std::vector<ReplayRow> ReplayRows(const std::vector<Experiment>& experiments,
                                  const GateSettings& settings);

// Where bits differ and nothing is known to be wrong, seeds decide: the row passes when learning
// was judged. What is equal bit by bit, every seed of it, lost nothing, however few the seeds and
// whatever could have been seen. Returns what is equal so.
std::set<Subject> SettleReplays(const GateSettings& settings, std::vector<ReplayRow>& replays,
                                std::vector<Row>& learning);

bool IsAcknowledged(const Row& row, const GateSettings& settings);

}  // namespace mixerbench::gate
