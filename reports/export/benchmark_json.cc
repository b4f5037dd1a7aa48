// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "reports/export/export.h"
#include "reports/view/config_leaves.h"

namespace mixerbench::reports {
namespace {

// Names of cells, which tell models apart: where several groups of a kind have one name, as in
// reports that were merged, with the first digits of the group's id.
class CellNames {
 public:
  explicit CellNames(const SweepReport& report) {
    for (const CellResult& cell : report.cells)
      groups_[{cell.name, cell.kind}].insert(cell.group_id);
  }

  std::string Of(const CellResult& cell) const {
    const std::string name = io::PlainLine(cell.name);
    if (groups_.at({cell.name, cell.kind}).size() == 1) return name;
    return name + "/group:" + cell.group_id.substr(cell.group_id.find(':') + 1, 8);
  }

 private:
  std::map<std::pair<std::string, std::string>, std::set<std::string>> groups_;
};

// "mqar/gla/d_model=64/fwd/seq_len:512/batch:8/bf16"; two rows of one name are repetitions.
std::string RowName(const std::string& cell, const ThroughputRow& row) {
  return fmt::format("{}/{}/seq_len:{}/batch:{}/{}", cell, io::PlainLine(row.phase), row.seq_len,
                     row.batch_size, io::PlainLine(row.dtype));
}

Object BaseRow(const std::string& name, std::int64_t family, std::int64_t repetitions) {
  return {{"name", name},     {"family_index", family},     {"per_family_instance_index", 0},
          {"run_name", name}, {"repetitions", repetitions}, {"threads", 1}};
}

// In microseconds: compare.py prints whole units.
void AddTimes(double ms, double tokens_per_sample, Object& row) {
  row["real_time"] = 1e3 * ms;
  row["cpu_time"] = 1e3 * ms;  // of events on the device: the two are one
  row["time_unit"] = "us";
  if (ms > 0 && tokens_per_sample > 0) row["items_per_second"] = 1e3 * tokens_per_sample / ms;
}

void AddTimings(const std::string& cell, const ThroughputRow& timing, std::int64_t family,
                Array& rows) {
  const std::string name = RowName(cell, timing);
  const auto repetitions = static_cast<std::int64_t>(timing.samples_ms.size());
  if (timing.state != CellState::kCompleted || !timing.median_ms) {
    Object row = BaseRow(name, family, 1);
    row["run_type"] = "iteration";
    row["repetition_index"] = 0;
    row["iterations"] = 0;
    row["error_occurred"] = true;
    row["error_message"] = std::string(NameOf(timing.state)) +
                           (timing.reason.empty() ? "" : ": " + io::PlainLine(timing.reason));
    AddTimes(0, 0, row);
    rows.emplace_back(std::move(row));
    return;
  }
  const auto tokens = static_cast<double>(TimedTokens(timing));
  for (std::int64_t i = 0; i < repetitions; ++i) {
    const double ms = timing.samples_ms[static_cast<std::size_t>(i)];
    if (!std::isfinite(ms)) continue;
    Object row = BaseRow(name, family, repetitions);
    row["run_type"] = "iteration";
    row["repetition_index"] = i;
    row["iterations"] = 1;
    AddTimes(ms, tokens, row);
    rows.emplace_back(std::move(row));
  }
  Object median = BaseRow(name + "_median", family, repetitions);
  median["run_name"] = name;
  median["run_type"] = "aggregate";
  median["aggregate_name"] = "median";
  median["aggregate_unit"] = "time";
  median["iterations"] = repetitions;
  AddTimes(*timing.median_ms, tokens, median);
  if (timing.peak_memory_bytes) median["peak_memory_bytes"] = *timing.peak_memory_bytes;
  rows.emplace_back(std::move(median));
}

// A trained cell is one row of one iteration, as its time is that of all of it, tests included, and
// Google Benchmark's times are of an iteration. Steps and accuracies are counters.
void AddTraining(const std::string& name, const CellResult& cell, std::int64_t family,
                 Array& rows) {
  Object row = BaseRow(fmt::format("{}/seed:{}", name, cell.seed), family, 1);
  row["run_type"] = "iteration";
  row["repetition_index"] = 0;
  row["iterations"] = 1;
  row["steps"] = cell.step;
  AddTimes(std::isfinite(cell.wall_s) ? 1e3 * cell.wall_s : 0, 0, row);
  if (cell.state != CellState::kCompleted) {
    row["error_occurred"] = true;
    row["error_message"] = std::string(NameOf(cell.state)) +
                           (cell.reason.empty() ? "" : ": " + io::PlainLine(cell.reason));
  }
  for (const AccuracyRow& accuracy : cell.accuracy) {
    if (!accuracy.slice.empty() || !accuracy.accuracy) continue;
    std::string key = "accuracy";
    for (const auto& [axis, value] : accuracy.axes) {
      key += "/" + io::PlainLine(axis) + ":" + io::PlainLine(io::ValueText(value));
    }
    row[key] = *accuracy.accuracy;
  }
  if (cell.steps_to_threshold) row["steps_to_threshold"] = *cell.steps_to_threshold;
  rows.emplace_back(std::move(row));
}

std::string FirstText(const SweepReport& report, const std::string& path) {
  for (const CellResult& cell : report.cells) {
    if (const std::string text = ConfigText(cell.environment, path); !text.empty()) return text;
  }
  return "";
}

}  // namespace

std::string RenderGoogleBenchmark(const SweepReport& report) {
  std::string started;
  for (const CellResult& cell : report.cells) {
    if (!cell.started.empty() && (started.empty() || cell.started < started))
      started = cell.started;
  }
  const std::string threads = FirstText(report, "cpu.threads");
  const bool is_number =
      !threads.empty() && threads.find_first_not_of("0123456789") == threads.npos;
  Object context = {{"date", started},
                    {"host_name", ""},
                    {"executable", "mixerbench"},
                    {"num_cpus", is_number ? Value(std::stoll(threads)) : Value(0)},
                    {"mhz_per_cpu", 0},
                    {"cpu_scaling_enabled", false},
                    {"caches", Array{}},
                    {"load_avg", Array{}},
                    {"library_build_type", "release"},
                    {"json_schema_version", 1},
                    {"mixerbench_version", FirstText(report, "tool.version")},
                    {"mixerbench_report", report.name},
                    {"gpu", FirstText(report, "gpu.name")},
                    {"libtorch", FirstText(report, "libtorch")}};
  Array rows;
  const CellNames names(report);
  std::int64_t family = 0;
  for (const CellResult& cell : report.cells) {
    if (cell.kind == "train") AddTraining(names.Of(cell), cell, family++, rows);
    for (const ThroughputRow& timing : cell.throughput)
      AddTimings(names.Of(cell), timing, family++, rows);
  }
  return io::DumpJson(Object{{"context", std::move(context)}, {"benchmarks", std::move(rows)}}, 2);
}

}  // namespace mixerbench::reports
