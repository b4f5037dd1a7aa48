// Times of two builds, taken in turn: pairs of processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gate/verdict/pairing.h"
#include "reports/result/result.h"

namespace mixerbench::gate {

// One process of each build, one after the other, on the same device.
struct ProcessPair {
  std::vector<reports::CellResult> base, candidate;
  bool candidate_first = false;
};

struct Timings {
  std::vector<ProcessPair> first;   // stage
  std::vector<ProcessPair> second;  // fresh pairs, of what failed in the first
};

// One shape of one experiment.
struct TimeKey {
  std::string experiment_id, phase;
  std::int64_t batch_size = 0, seq_len = 0;
  std::string dtype;
  auto operator<=>(const TimeKey&) const = default;
};

// The times of one shape over the pairs of a stage in which both processes measured it.
struct TimeSeries {
  std::string cell;
  std::vector<double> base_ms, candidate_ms;
  std::vector<double> log_ratios;
  bool has_other_device = false;                      // of the two processes of a pair
  std::set<std::string> base_codes, candidate_codes;  // code ids of what was timed
  std::set<std::string> devices;                      // that it was timed on
};

std::map<TimeKey, TimeSeries> SeriesOf(const std::vector<ProcessPair>& pairs);

}  // namespace mixerbench::gate
