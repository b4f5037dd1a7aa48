// Forms for other programs, byte by byte: every column of a small report, absent values and failed
// rows too.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include "reports/export/accuracy_csv.h"
#include "reports/export/export.h"
#include "reports/testing/test_cells.h"

#include "tests/support/catch2.h"

namespace mixerbench::reports {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

CellResult Cell() {
  CellResult cell = TrainedCell("mqar/gla/lr=0.5", 7);
  cell.run_id = "run";
  return cell;
}

SweepReport ReportOf(std::vector<CellResult> cells) {
  return MakeSweepReport("small", {}, std::move(cells));
}

// The first point is whole, the second has no number that is one.
std::vector<LearningPoint> Points() {
  return {{.step = 4,
           .train_loss = 2.5,
           .validation_accuracy = 0.25,
           .lr = 0.5,
           .elapsed_s = 1.5,
           .auxiliary_losses = {{"z", 0.125}}},
          {.step = 8,
           .train_loss = kNan,
           .validation_accuracy = {},
           .lr = kInfinity,
           .elapsed_s = -kInfinity,
           .auxiliary_losses = {{"z", kNan}}}};
}

AccuracyRow Scored() {
  AccuracyRow row;
  row.axes = {{"input_seq_len", 64}};
  row.num_sequences = 40;
  row.num_scored = 160;
  row.num_correct = 120;
  row.accuracy = 0.75;
  row.accuracy_per_example = 0.625;
  row.accuracy_macro = 0.5;
  row.accuracy_macro_batched = 0.4375;
  row.sequence_accuracy = 0.375;
  row.nll = 1.25;
  row.ci_items = Interval{"beta", 0.95, 0.6875, 0.8125};
  row.ci_sequences = Interval{"wilson", 0.95, 0.25, 0.53125};
  row.chance = 0.015625;
  row.guesses = {{"uniform", 0.015625}, {"some value of the context", 0.25}};
  row.ceiling = 0.96875;
  row.extrapolated = true;
  return row;
}

AccuracyRow OutOfMemory() {
  AccuracyRow row;
  row.axes = {{"input_seq_len", 128}};
  row.state = CellState::kOom;
  row.reason = "asked for 9 GiB, \"free\": 1";
  row.chance = 0.015625;
  return row;
}

CellResult Diverged() {
  CellResult cell = Cell();
  cell.seed = 8;
  cell.run_id = "worse";
  cell.state = CellState::kDiverged;
  cell.reason = "train loss was not finite";
  return cell;
}

}  // namespace

TEST_CASE("csv-curves, byte by byte: what is no number is empty", "[reports][export]") {
  CellResult cell = Cell();
  cell.learning_curve = Points();
  CHECK(RenderCurvesCsv(ReportOf({cell, Diverged()})) ==
        "task,mixer,variant,seed,run_id,step,train_loss,validation_accuracy,lr,elapsed_s,"
        "auxiliary_loss.z\n"
        "mqar,gla,lr=0.5,7,run,4,2.5,0.25,0.5,1.5,0.125\n"
        "mqar,gla,lr=0.5,7,run,8,,,,,\n");
}

TEST_CASE("csv-timings, byte by byte: a row that failed is one line without numbers",
          "[reports][export]") {
  CellResult cell = Cell();
  cell.throughput.resize(2);
  ThroughputRow& timed = cell.throughput[0];
  timed.phase = "fwd";
  timed.batch_size = 8;
  timed.seq_len = 512;
  timed.dtype = "bf16";
  timed.clock = "cuda_event";
  timed.warmup_iterations = 25;
  timed.samples_ms = {2.5, 3.5};
  timed.median_ms = 3.25;
  timed.spread_ms = Interval{"percentile", 0.6, 2.75, 3.375};
  timed.tokens_per_second = 1365333.5;
  timed.peak_memory_bytes = 300'000'000;
  timed.parity_check = "passed";
  timed.execution = "graph";
  timed.throttle = {"sw_power_cap", "sw_thermal_slowdown"};
  timed.throttled_samples_dropped = 3;
  timed.energy_j = 812.5;
  ThroughputRow& failed = cell.throughput[1];
  failed.phase = "fwd_bwd";
  failed.batch_size = 4;
  failed.seq_len = 1024;
  failed.dtype = "fp32";
  failed.clock = "steady_clock";
  failed.state = CellState::kOom;
  failed.reason = "asked for 9 GiB, \"free\": 1";
  failed.parity_check = "not run";
  CHECK(RenderTimingsCsv(ReportOf({cell, Diverged()})) ==
        "task,mixer,variant,seed,run_id,phase,batch_size,seq_len,dtype,clock,state,reason,"
        "execution,parity,sample,sample_ms,median_ms,p20_ms,p80_ms,tokens_per_second,"
        "peak_memory_bytes,throttle,throttled_samples_dropped,energy_j\n"
        "mqar,gla,lr=0.5,7,run,fwd,8,512,bf16,cuda_event,completed,,graph,passed,0,2.5,3.25,2.75,"
        "3.375,1365333.5,300000000,sw_power_cap sw_thermal_slowdown,3,812.5\n"
        "mqar,gla,lr=0.5,7,run,fwd,8,512,bf16,cuda_event,completed,,graph,passed,1,3.5,3.25,2.75,"
        "3.375,1365333.5,300000000,sw_power_cap sw_thermal_slowdown,3,812.5\n"
        "mqar,gla,lr=0.5,7,run,fwd_bwd,4,1024,fp32,steady_clock,oom,"
        "\"asked for 9 GiB, \"\"free\"\": 1\",,not run,,,,,,,,,0,\n");
}

TEST_CASE("csv, byte by byte: a segment that failed, a cell without any", "[reports][export]") {
  CellResult cell = Cell();
  cell.accuracy = {Scored(), OutOfMemory()};
  CHECK(RenderAccuracyCsv(ReportOf({cell, Diverged()})) ==
        "task,mixer,variant,kind,seed,cell_state,cell_reason,run_id,partial,selected,phase,"
        "input_seq_len,slice,bucket,state,reason,num_sequences,num_scored,num_correct,accuracy,"
        "ci_low,ci_high,accuracy_per_example,accuracy_macro,accuracy_macro_batched,"
        "sequence_accuracy,nll,chance,strongest_guess,ceiling,extrapolated\n"
        "mqar,gla,lr=0.5,train,7,completed,,run,false,,,64,,,completed,,40,160,120,0.75,0.6875,"
        "0.8125,0.625,0.5,0.4375,0.375,1.25,0.015625,0.25,0.96875,true\n"
        "mqar,gla,lr=0.5,train,7,completed,,run,false,,,128,,,oom,"
        "\"asked for 9 GiB, \"\"free\"\": 1\",0,0,0,,,,,,,,,0.015625,,,false\n"
        "mqar,gla,lr=0.5,train,8,diverged,train loss was not finite,worse,false,,,,,,,,,,,,,,,,,,,,"
        ",,\n");
}

TEST_CASE("mllog, byte by byte: what has no value is no event, a failed run is aborted",
          "[reports][export]") {
  CellResult cell = Cell();
  cell.config = Object{{"train", Object{{"batch_size", 256}, {"lr", 0.5}}}};
  cell.started = "2026-11-21T08:00:00Z";
  cell.wall_s = 2.25;
  cell.learning_curve = Points();
  AccuracyRow bucket = Scored();
  bucket.slice = "gap";
  bucket.bucket = "0-15";
  cell.accuracy = {Scored(), bucket, OutOfMemory()};
  CellResult failed = Diverged();
  failed.seed = (1ULL << 53) + 1;  // no double holds it
  failed.started = "2024-02-29T23:59:59Z";
  failed.wall_s = kNan;
  failed.learning_curve = {Points().front()};
  failed.learning_curve[0].elapsed_s = kInfinity;
  CellResult timed = Cell();
  timed.kind = "throughput";
  timed.started = cell.started;
  const auto event = [](const std::string& type, const std::string& key,
                        const std::string& metadata, const std::string& time_ms,
                        const std::string& value) {
    return R"(:::MLLOG {"event_type":")" + type + R"(","key":")" + key + R"(","metadata":{)" +
           metadata + R"(},"namespace":"","time_ms":)" + time_ms + R"(,"value":)" + value + "}\n";
  };
  const std::string point = "POINT_IN_TIME";
  const std::string run = R"("run_id":"run")";
  const std::string worse = R"("run_id":"worse")";
  const std::string start = "1795248000000";
  const std::string leap_day = "1709251199000";
  CHECK(RenderMlLog(ReportOf({cell, failed, timed, Cell()})) ==
        event(point, "submission_benchmark", run, start, R"("mqar")") +
            event(point, "seed", run, start, "7") +
            event(point, "global_batch_size", run, start, "256") +
            event(point, "opt_base_learning_rate", run, start, "0.5") +
            event("INTERVAL_START", "run_start", R"("cell":"mqar/gla/lr=0.5",)" + run, start,
                  "null") +
            event(point, "eval_accuracy", run + R"(,"split":"validation","step":4)",
                  "1795248001500", "0.25") +
            event(point, "eval_accuracy",
                  R"("axes":{"input_seq_len":64},)" + run + R"(,"samples_count":40,"split":"test")",
                  "1795248002250", "0.75") +
            event("INTERVAL_END", "run_stop",
                  R"("reason":"",)" + run + R"(,"state":"completed","status":"success")",
                  "1795248002250", "null") +
            event(point, "submission_benchmark", worse, leap_day, R"("mqar")") +
            event(point, "seed", worse, leap_day, R"("9007199254740993")") +
            event("INTERVAL_START", "run_start", R"("cell":"mqar/gla/lr=0.5",)" + worse, leap_day,
                  "null") +
            event(point, "eval_accuracy", worse + R"(,"split":"validation","step":4)", leap_day,
                  "0.25") +
            event("INTERVAL_END", "run_stop",
                  R"("reason":"train loss was not finite",)" + worse +
                      R"(,"state":"diverged","status":"aborted")",
                  leap_day, "null"));
}

}  // namespace mixerbench::reports
