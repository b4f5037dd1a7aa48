// SPDX-License-Identifier: Apache-2.0
#include "harness/run/disk_need.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <set>
#include <system_error>

#include "harness/run/kept_trainings.h"
#include "harness/run/plan.h"
#include "harness/training/memory_need.h"
#include "io/json.h"
#include "io/text.h"

namespace mixerbench::harness {
namespace {

namespace fs = std::filesystem;

// Measured on 1,143 cells, from toy suites to mixers: config, events and result of one were 28 kB
// in the median and 64 kB at most. Its part of sweep.json and the reports was 41 kB in the median
// of 78 folders, and 113 kB in the largest; while a report is written the one before still stands.
constexpr double kCellBytes = 64 * 1024;
constexpr double kReportBytes = 2 * 64 * 1024;

// The newest two and the one being written, each with parameters and two moments.
constexpr double kCheckpoints = 3;
constexpr double kTensorsPerParameter = 3;

// Of one training, beside its tensors: its result so far.
constexpr double kFileBytes = 32 * 1024;

// A line of mqar takes 177 bytes, 15 compressed; slices and numbers of other tasks may be longer.
constexpr double kItemBytes = 256;
constexpr double kCompressedItemBytes = 32;

double ParameterBytes(const Cell& cell, at::Device device, const Registries& registries) {
  try {
    const MemoryNeed need = EstimateMemory(cell, device, registries);
    return DescribeLack(need, TotalMemory(device)).empty() ? need.parameters : 0;
  } catch (const std::exception&) {
    return 0;  // a row of the report says why
  }
}

double NumItems(const Cell& cell, const Registries& registries) {
  if (cell.kind != CellKind::kTrain && cell.kind != CellKind::kEvaluate) return 0;
  double count = 0;
  for (const Segment& segment : cell.task.test) {
    const auto task = registries.tasks.Find(cell.task.name, "").create(segment.params, "");
    count += static_cast<double>(segment.num_examples) *
             static_cast<double>(task->shape().max_num_scored);
  }
  return count;
}

// What earlier attempts saved, which gives way to newer checkpoints.
double SavedBytes(const fs::path& cell_path) {
  double bytes = 0;
  std::error_code error;  // of a folder that is not there: no entries
  for (const auto& entry : fs::recursive_directory_iterator(cell_path, error)) {
    if (!entry.path().filename().string().starts_with("checkpoint-")) continue;
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

double SumOfLargest(std::vector<double> values, std::size_t count) {
  std::sort(values.begin(), values.end(), std::greater<>());
  values.resize(std::min(count, values.size()));
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

std::string Format(double bytes) {
  constexpr double kMost = 9e18;  // below what 64 bits hold
  return io::FormatBytes(static_cast<std::int64_t>(std::min(bytes, kMost)));
}

}  // namespace

DiskNeed EstimateDisk(const std::vector<Cell>& cells, const std::vector<std::size_t>& pending,
                      std::size_t at_once, const CellOptions& options, at::Device device,
                      const fs::path& out, const Registries& registries) {
  DiskNeed need;
  if (pending.empty()) return need;
  const auto limit = static_cast<double>(options.weights_limit_mib << 20);
  const double item_bytes = options.log_items == "zstd" ? kCompressedItemBytes : kItemBytes;
  std::set<std::string> used, counted;
  for (const std::size_t i : pending) {
    if (NamesTraining(cells[i].kind)) used.insert(cells[i].training_id);
  }
  std::map<std::string, double> parameters;  // by model and task: a sweep repeats them
  std::vector<double> checkpoints;
  double saved = 0;
  for (const std::size_t i : pending) {
    const Cell& cell = cells[i];
    if (!options.log_items.empty()) need.items += NumItems(cell, registries) * item_bytes;
    if (cell.kind != CellKind::kTrain) continue;
    const std::string key = io::DumpJson(cell.model) + io::DumpJson(TaskPlanToValue(cell.task));
    const auto [entry, is_new] = parameters.try_emplace(key, 0);
    if (is_new) entry->second = ParameterBytes(cell, device, registries);
    if (entry->second == 0) continue;
    checkpoints.push_back(kCheckpoints * (kTensorsPerParameter * entry->second + kFileBytes));
    saved += SavedBytes(CellFolder(out, cell.run_id));
    const double weights = entry->second + kFileBytes;
    const bool is_kept = weights <= limit || used.contains(cell.training_id);
    const bool is_there = WeightsOf(out, cell.training_id, options.is_strict).HasFile();
    if (is_kept && !is_there && counted.insert(cell.training_id).second) need.weights += weights;
  }
  need.results = static_cast<double>(pending.size()) * kCellBytes +
                 static_cast<double>(cells.size()) * kReportBytes;
  if (options.checkpoint_interval_s > 0) {
    need.checkpoints = std::max(0.0, SumOfLargest(std::move(checkpoints), at_once) - saved);
  }
  return need;
}

std::string DescribeDisk(const DiskNeed& need) {
  std::string text =
      Format(need.least()) + " to " + Format(need.total()) + " (results " + Format(need.results);
  if (need.checkpoints > 0) text += ", checkpoints " + Format(need.checkpoints);
  if (need.weights > 0) text += ", weights " + Format(need.weights);
  if (need.items > 0) text += ", items " + Format(need.items);
  return text + ")";
}

}  // namespace mixerbench::harness
