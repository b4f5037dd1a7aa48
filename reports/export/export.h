// Results for other tools: tables as CSV, Google Benchmark's JSON, an MLPerf-style log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// Cells: one line each, with ids, setting, outcome, speed of learning, size, time and device.
std::string RenderCellsCsv(const SweepReport& report);

// Groups over seeds as the report summarises them: one line for each segment or bucket of each, one
// for a group without any. Intervals over seeds, over items and of the solve rate have columns of
// their own.
std::string RenderGroupsCsv(const SweepReport& report);

// Learning curves in long form: one line for each point of each cell, a column for each auxiliary
// loss.
std::string RenderCurvesCsv(const SweepReport& report);

// Timings in long form: one line for each sample, with the medians beside it.
std::string RenderTimingsCsv(const SweepReport& report);

// Taps of trained mixers: one line for each cell, segment, tap and place in the model.
std::string RenderTapsCsv(const SweepReport& report);

// What Google Benchmark writes with --benchmark_out_format=json, so that its compare.py and
// dashboards read it: one row for each sample (run_type iteration), a median row, failed rows with
// error_occurred, and accuracy as counters of a row for each trained cell.
std::string RenderGoogleBenchmark(const SweepReport& report);

// One ":::MLLOG {json}" line for each event: run_start, the settings, every evaluation, run_stop.
std::string RenderMlLog(const SweepReport& report);

}  // namespace mixerbench::reports
