// SPDX-License-Identifier: Apache-2.0
#include "gate/verdict/timings.h"

#include <cmath>

#include "reports/result/device.h"

namespace mixerbench::gate {
namespace {

using reports::CellResult;

struct Measured {
  const CellResult* cell;
  double ms;
};

std::map<TimeKey, Measured> TimesOf(const std::vector<CellResult>& cells) {
  std::map<TimeKey, Measured> times;
  for (const CellResult& cell : cells) {
    for (const auto& row : cell.throughput) {
      if (row.state != reports::CellState::kCompleted || !row.median_ms) continue;
      times.try_emplace({cell.experiment_id, row.phase, row.batch_size, row.seq_len, row.dtype},
                        Measured{&cell, *row.median_ms});
    }
  }
  return times;
}

}  // namespace

std::map<TimeKey, TimeSeries> SeriesOf(const std::vector<ProcessPair>& pairs) {
  std::map<TimeKey, TimeSeries> all;
  for (const ProcessPair& pair : pairs) {
    const std::map<TimeKey, Measured> candidates = TimesOf(pair.candidate);
    for (const auto& [key, base] : TimesOf(pair.base)) {
      const auto found = candidates.find(key);
      if (found == candidates.end()) continue;
      const Measured& candidate = found->second;
      TimeSeries& series = all[key];
      series.cell = base.cell->name;
      series.base_ms.push_back(base.ms);
      series.candidate_ms.push_back(candidate.ms);
      series.log_ratios.push_back(std::log(candidate.ms / base.ms));
      series.base_codes.insert(base.cell->code_id);
      series.candidate_codes.insert(candidate.cell->code_id);
      const std::string device = reports::DeviceOf(*base.cell);
      series.has_other_device |= device != reports::DeviceOf(*candidate.cell);
      series.devices.insert(device);
    }
  }
  return all;
}

}  // namespace mixerbench::gate
