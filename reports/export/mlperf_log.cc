// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>

#include "io/json.h"
#include "reports/export/export.h"
#include "reports/view/config_leaves.h"

namespace mixerbench::reports {
namespace {

// Milliseconds since 1970 of "2026-11-21T08:00:00Z"; 0 when it is none.
std::int64_t MillisecondsOf(const std::string& iso) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (std::sscanf(iso.c_str(), "%d-%d-%dT%d:%d:%dZ", &year, &month, &day, &hour, &minute,
                  &second) != 6) {
    return 0;
  }
  // Days from civil date (proleptic Gregorian), without the time zone of this machine.
  const int y = month <= 2 ? year - 1 : year;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t of_era = y - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t days =
      era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
  return 1000 * (((days * 24 + hour) * 60 + minute) * 60 + second);
}

class Log {
 public:
  Log(const CellResult& cell, std::string& out)
      : start_(MillisecondsOf(cell.started)), cell_(cell), out_(out) {}

  void Event(const char* type, const std::string& key, Value value, double after_s,
             Object metadata = {}) {
    metadata["run_id"] = cell_.run_id;
    const double ms = std::isfinite(after_s) ? 1e3 * after_s : 0;
    out_ += ":::MLLOG " +
            io::DumpJson(Object{{"namespace", ""},
                                {"time_ms", start_ + static_cast<std::int64_t>(ms)},
                                {"event_type", type},
                                {"key", key},
                                {"value", std::move(value)},
                                {"metadata", std::move(metadata)}}) +
            "\n";
  }

 private:
  std::int64_t start_;
  const CellResult& cell_;
  std::string& out_;
};

// As the config has it: a whole number stays one.
Value NumberAt(const Value& config, const std::string& path) {
  const std::string text = ConfigText(config, path);
  return text.empty() ? Value() : io::ParseJson(text);
}

}  // namespace

std::string RenderMlLog(const SweepReport& report) {
  std::string out;
  for (const CellResult& cell : report.cells) {
    if (cell.kind != "train" || cell.started.empty()) continue;
    Log log(cell, out);
    log.Event("POINT_IN_TIME", "submission_benchmark", SplitCellName(cell.name).task, 0);
    log.Event("POINT_IN_TIME", "seed",
              cell.seed <= (1ULL << 53) ? Value(cell.seed) : Value(std::to_string(cell.seed)), 0);
    if (const Value batch = NumberAt(cell.config, "train.batch_size"); !batch.is_null()) {
      log.Event("POINT_IN_TIME", "global_batch_size", batch, 0);
    }
    if (const Value lr = NumberAt(cell.config, "train.lr"); !lr.is_null()) {
      log.Event("POINT_IN_TIME", "opt_base_learning_rate", lr, 0);
    }
    log.Event("INTERVAL_START", "run_start", Value(), 0, {{"cell", cell.name}});
    for (const LearningPoint& point : cell.learning_curve) {
      if (!point.validation_accuracy) continue;
      log.Event("POINT_IN_TIME", "eval_accuracy", *point.validation_accuracy, point.elapsed_s,
                {{"step", point.step}, {"split", "validation"}});
    }
    for (const AccuracyRow& row : cell.accuracy) {
      if (!row.slice.empty() || !row.accuracy) continue;
      log.Event("POINT_IN_TIME", "eval_accuracy", *row.accuracy, cell.wall_s,
                {{"split", "test"}, {"axes", row.axes}, {"samples_count", row.num_sequences}});
    }
    const bool is_done = cell.state == CellState::kCompleted;
    log.Event("INTERVAL_END", "run_stop", Value(), cell.wall_s,
              {{"status", is_done ? "success" : "aborted"},
               {"state", std::string(NameOf(cell.state))},
               {"reason", cell.reason}});
  }
  return out;
}

}  // namespace mixerbench::reports
