// Results for other tools: tables as CSV, Google Benchmark's JSON, an MLPerf-style log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reports/summary/sweep_report.h"

namespace mixerbench::reports {

// Learning curves in long form: one line for each point of each cell.
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
