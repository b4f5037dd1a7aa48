// SPDX-License-Identifier: Apache-2.0
#include "reports/testing/test_cells.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "reports/statistics/statistics.h"

namespace mixerbench::reports {
namespace {

struct Mixer {
  std::string name;
  double reach;  // length at which accuracy has fallen to a half
  double steepness;
  double state_bytes;  // of one sequence; negative: bytes per token
  double tokens_per_ms;
  double steps;  // half way to the threshold
};

const std::array<Mixer, 5> kMixers = {{{"attention", 9000, 1.1, -1024, 5200, 300},
                                       {"deltanet", 620, 2.4, 65536, 7400, 700},
                                       {"gated_deltanet", 900, 2.6, 65536, 6900, 650},
                                       {"gla", 330, 1.9, 65536, 8800, 1100},
                                       {"mamba2", 240, 1.6, 131072, 9600, 1500}}};

// A number in [-1, 1) that depends on the text alone.
double Noise(const std::string& key) {
  const std::string hex = Sha256Hex(key).substr(0, 8);
  return static_cast<double>(std::stoul(hex, nullptr, 16)) / 2147483648.0 - 1.0;
}

Value Config(const std::string& mixer) {
  return Object{
      {"task", Object{{"name", "mqar"}, {"vocab_size", 8192}, {"power_a", 0.01}}},
      {"model", Object{{"d_model", 128},
                       {"n_layers", 2},
                       {"sequence_mixer", Object{{"name", mixer}, {"n_heads", 2}}}}},
      {"train",
       Object{{"lr", 0.001}, {"batch_size", 256}, {"max_steps", 4000}, {"dtype", "bf16"}}}};
}

Value Environment() {
  return Object{
      {"tool", Object{{"version", "0.1.0"}, {"git_commit", "7603b83"}, {"git_dirty", false}}},
      {"libtorch", "2.11.0+cu130"},
      {"cuda_runtime", "13.0"},
      {"gpu", Object{{"name", "Example GPU"}, {"count", 1}}},
      {"determinism", Object{{"mode", "strict"}}}};
}

CellResult Base(const std::string& task, const std::string& mixer, const std::string& kind,
                std::uint64_t seed) {
  CellResult cell;
  cell.name = task + "/" + mixer + "/d_model=128";
  cell.kind = kind;
  cell.seed = seed;
  cell.group_id = "sha256:" + Sha256Hex(cell.name + kind);
  cell.run_id = "sha256:" + Sha256Hex(cell.group_id + std::to_string(seed));
  cell.config = Config(mixer);
  cell.environment = Environment();
  cell.data_hash = Object{{"train", "sha256:" + Sha256Hex("train" + std::to_string(seed))},
                          {"test", "sha256:" + Sha256Hex("test" + std::to_string(seed))}};
  cell.state = CellState::kCompleted;
  cell.started = "2026-11-21T08:00:00Z";
  return cell;
}

AccuracyRow Row(const Mixer& mixer, std::int64_t length, std::uint64_t seed, double gap,
                std::string bucket) {
  const double distance = std::log2(static_cast<double>(length) / mixer.reach) + gap;
  const std::string key = mixer.name + std::to_string(length) + std::to_string(seed) + bucket;
  const double p = std::clamp(1 / (1 + std::exp(mixer.steepness * distance)) + 0.015 * Noise(key),
                              0.0005, 0.9995);
  AccuracyRow row;
  row.axes = {{"input_seq_len", length}, {"num_kv_pairs", length / 16}};
  row.slice = bucket.empty() ? "" : "gap";
  row.bucket = std::move(bucket);
  row.num_sequences = 3000;
  row.num_scored = row.num_sequences * length / 16;
  row.num_correct = static_cast<std::int64_t>(p * static_cast<double>(row.num_scored));
  row.accuracy = static_cast<double>(row.num_correct) / static_cast<double>(row.num_scored);
  row.accuracy_per_example = row.accuracy;
  row.sequence_accuracy = std::pow(*row.accuracy, 4);
  row.nll = -std::log(*row.accuracy);
  const double half = 0.004 + 0.02 * p * (1 - p);
  row.ci_items = Interval{"beta", 0.95, std::max(0.0, *row.accuracy - half),
                          std::min(1.0, *row.accuracy + half)};
  row.ci_sequences = Wilson(static_cast<std::int64_t>(*row.sequence_accuracy * 3000), 3000);
  row.chance = 1.0 / 8192;
  if (row.bucket.empty()) {
    row.guesses = {{"uniform over values", row.chance},
                   {"some value of the context", 16.0 / static_cast<double>(length)}};
    row.accuracy_macro_batched = row.accuracy;
    row.ceiling = 1;
  }
  row.extrapolated = length > 256;
  return row;
}

AccuracyRow SkippedRow(const Mixer& mixer, std::int64_t length) {
  const AccuracyRow example = Row(mixer, length, 0, 0, "");
  AccuracyRow row;
  row.axes = example.axes;
  row.state = CellState::kSkipped;
  row.reason = "training diverged";
  row.chance = example.chance;
  row.guesses = example.guesses;
  row.extrapolated = example.extrapolated;
  return row;
}

CellResult Training(const Mixer& mixer, std::uint64_t seed) {
  CellResult cell = Base("mqar", mixer.name, "train", seed);
  const std::string key = mixer.name + std::to_string(seed);
  const bool diverges = mixer.name == "mamba2" && seed == 1002;
  const double slow = mixer.steps * (1 + 0.2 * Noise(key));
  const std::int64_t last = diverges ? 1200 : 4000;
  for (std::int64_t step = 100; step <= last; step += 100) {
    const double t = static_cast<double>(step);
    const double done = 1 / (1 + std::exp(-(t - slow) / (0.18 * slow)));
    cell.learning_curve.push_back(
        {.step = step,
         .train_loss = 9.01 * (1 - done) + 0.02,
         .validation_accuracy =
             std::clamp(0.985 * done + 0.006 * Noise(key + std::to_string(step)), 0.0, 1.0),
         .lr = 0.001 * std::cos(1.57 * t / 4000),
         .elapsed_s = t * 0.0012});
    if (!cell.steps_to_threshold && *cell.learning_curve.back().validation_accuracy >= 0.95) {
      cell.steps_to_threshold = step;
    }
  }
  cell.threshold = 0.95;
  cell.step = last;
  cell.planned_steps = 4000;
  cell.wall_s = static_cast<double>(last) * 0.0012;
  cell.tokens_seen = last * 256 * 256;
  cell.model = {.num_parameters = 1'184'512,
                .state_bytes_measured = static_cast<std::int64_t>(
                    mixer.state_bytes > 0 ? mixer.state_bytes : -mixer.state_bytes * 1024),
                .state_bytes_declared = static_cast<std::int64_t>(
                    mixer.state_bytes > 0 ? mixer.state_bytes : -mixer.state_bytes * 1024),
                .state_at_num_tokens = 1024,
                .path = "fast"};
  if (diverges) {
    cell.state = CellState::kDiverged;
    cell.reason = "train loss was not finite at step 1200";
    cell.steps_to_threshold.reset();
  }
  const std::array<std::pair<const char*, double>, 4> gaps = {
      {{"0-15", -1.2}, {"16-63", -0.3}, {"64-255", 0.4}, {"256-1023", 1.3}}};
  for (std::int64_t length = 64; length <= 1024; length *= 2) {
    cell.accuracy.push_back(diverges ? SkippedRow(mixer, length) : Row(mixer, length, seed, 0, ""));
    if (diverges) continue;
    for (const auto& [bucket, gap] : gaps) {
      if (std::stoll(bucket) < length)
        cell.accuracy.push_back(Row(mixer, length, seed, gap, bucket));
    }
  }
  return cell;
}

// One mixer has heads without device code.
PhasePlan Plans(const Mixer& mixer, const ThroughputRow& row) {
  const bool falls_back = mixer.name == "mamba2";
  const std::string plan = falls_back ? "aten_chunk" : "chunk_scan";
  const std::string backward = row.phase == "fwd_bwd" ? plan : "";
  return {.phase = row.phase,
          .batch_size = row.batch_size,
          .seq_len = row.seq_len,
          .execution = row.execution,
          .eager_reason = {},
          .functions = {{.function = "embedding",
                         .scopes = {""},
                         .forward = "fused",
                         .backward = {},
                         .reason = {}},
                        {.function = "scalar_decay",
                         .is_core = true,
                         .scopes = {"layers.0", "layers.1"},
                         .forward = plan,
                         .backward = backward,
                         .reason = falls_back ? "head_k_dim 24 is no multiple of 16" : ""}}};
}

CellResult Throughput(const Mixer& mixer) {
  CellResult cell = Base("throughput", mixer.name, "throughput", 1000);
  for (const auto& [phase, cost] : {std::pair{"fwd", 1.0}, std::pair{"fwd_bwd", 3.4}}) {
    for (std::int64_t length = 512; length <= 32768; length *= 2) {
      ThroughputRow row;
      row.phase = phase;
      row.batch_size = 8;
      row.seq_len = length;
      row.dtype = "bf16";
      row.clock = "cuda_event";
      row.warmup_iterations = 25;
      row.parity_check = "passed";
      const double tokens = static_cast<double>(8 * length);
      const double quadratic =
          mixer.name == "attention" ? 1 + static_cast<double>(length) / 3000 : 1;
      if (mixer.name == "attention" && length == 32768 && row.phase == "fwd_bwd") {
        row.state = CellState::kOom;
        row.reason = "requested 34.0 GiB, free 12.1 GiB";
        row.parity_check = "not run";
      } else {
        for (int i = 0; i < 10; ++i) {
          row.samples_ms.push_back((0.12 + tokens * quadratic / mixer.tokens_per_ms / 20) * cost *
                                   (1 + 0.01 * Noise(mixer.name + phase + std::to_string(i))));
        }
        row.median_ms = Median(row.samples_ms);
        row.spread_ms = Interval{"percentile", 0.6, Percentile(row.samples_ms, 0.2),
                                 Percentile(row.samples_ms, 0.8)};
        row.tokens_per_second = tokens / *row.median_ms * 1000;
        row.peak_memory_bytes = 300'000'000 + length * 40'000;
        const bool has_gradients = row.phase == "fwd_bwd";
        row.execution = "graph";
        row.parity = Parity{.passes = has_gradients ? "forward, backward" : "forward",
                            .num_sequences = std::max<std::int64_t>(1, 4096 / length),
                            .num_tokens = std::min<std::int64_t>(length, 4096),
                            .quantity = has_gradients ? "d embedding.weight" : "hidden",
                            .error = 0.0041,
                            .tolerance = 0.0097};
        cell.plans.push_back(Plans(mixer, row));
      }
      cell.throughput.push_back(std::move(row));
    }
  }
  return cell;
}

}  // namespace

CellResult TrainedCell(const std::string& name, std::uint64_t seed) {
  CellResult cell;
  cell.name = name;
  cell.kind = "train";
  cell.group_id = name;
  cell.run_id = name + std::to_string(seed);
  cell.seed = seed;
  cell.state = CellState::kCompleted;
  return cell;
}

CellResult ExampleCell() {
  CellResult cell = Training(kMixers[2], 1000);
  CellResult measured = Throughput(kMixers[2]);
  cell.throughput = std::move(measured.throughput);
  cell.plans = std::move(measured.plans);
  cell.energy_j = 151e3;
  cell.machine = Object{
      {"container", Sha256Hex("container")},
      {"gpu",
       Object{{"uuid_hash", "sha256:" + Sha256Hex("GPU")},
              {"power_limit_w", 700.0},
              {"start", Object{{"sm_clock_mhz", 1980}, {"throttle", Array{}}}},
              {"end", Object{{"sm_clock_mhz", 1905}, {"throttle", Array{"sw_power_cap"}}}}}}};
  cell.throughput[0].throttle.emplace();
  cell.throughput[1].throttle = {"sw_power_cap", "sw_thermal_slowdown"};
  cell.throughput[1].throttled_samples_dropped = 2;
  cell.throughput[1].energy_j = 812.5;
  cell.taps.push_back({.axes = Object{{"input_seq_len", 64}},
                       .tap = "write_gate",
                       .path = "layers.0.write_gate",
                       .reason = {},
                       .num_sequences = 32,
                       .num_values = 4096,
                       .num_not_finite = 3,
                       .mean = 0.51,
                       .std = 0.02,
                       .min = 0.44,
                       .max = 0.57});
  return cell;
}

std::vector<CellResult> ExampleSweep(int num_seeds) {
  std::vector<CellResult> cells;
  for (const Mixer& mixer : kMixers) {
    for (int seed = 0; seed < num_seeds; ++seed) {
      cells.push_back(Training(mixer, 1000 + static_cast<std::uint64_t>(seed)));
    }
    cells.push_back(Throughput(mixer));
  }
  CellResult unsupported = Base("mqar", "rwkv7", "train", 1000);
  unsupported.state = CellState::kUnsupported;
  unsupported.reason = "head_dim 48 is not supported by the CUDA path (supported: 32, 64, 128)";
  unsupported.threshold = 0.95;
  cells.push_back(unsupported);
  return cells;
}

Value RateChoice() {
  return Object{{"sweep", Object{{"select", Object{{"over", Array{"train.lr"}},
                                                   {"by", "validation.accuracy"}}}}}};
}

}  // namespace mixerbench::reports
