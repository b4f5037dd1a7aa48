// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/head_tiles.h"

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core_testing.h"
#include "kernels/linear_attention/delta_rule/delta_rule.h"
#include "kernels/linear_attention/delta_rule/delta_rule_plan.h"
#include "kernels/linear_attention/gla/gla.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/linear_attention/simple_gla/simple_gla.h"
#include "tests/support/compare.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using decay_scan::DecayAxis;
using decay_scan::DecayScanPlans;
using testing::DrawInputs;
using testing::RelativeError;
using testing::RunWithGradients;

constexpr double kFloat64Tolerance = 1e-12;  // other order of sums of some hundred terms

struct ReferenceCore {
  const char* name;
  RecurrenceFunction function;
  RecurrenceResult (*reference)(const RecurrenceArgs&);
  DecayShape decay_shape;
  bool has_beta;
  KeyTiles key_tiles;
};

const ReferenceCore kCores[] = {
    {"simple_gla", SimpleGla, ReferenceSimpleGla, DecayShape::kScalar, false, KeyTiles::kAny},
    {"gla", Gla, ReferenceGla, DecayShape::kVector, false, KeyTiles::kAny},
    {"delta_rule", DeltaRule, ReferenceDeltaRule, DecayShape::kScalar, true, KeyTiles::kOne},
};

at::Tensor Find(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? at::Tensor() : found->second;
}

// The reference on heads cut into `tiles`.
CoreEntry TiledEntry(const ReferenceCore& core, const HeadTiles& tiles) {
  CoreEntry entry = RecurrenceEntry(core.function, core.decay_shape, core.has_beta);
  entry.run = [core, tiles](const NamedTensors& inputs, const CoreOptions& options) {
    const RecurrenceArgs args{.q = inputs.at("q"),
                              .k = inputs.at("k"),
                              .v = inputs.at("v"),
                              .log_decay = Find(inputs, "log_decay"),
                              .beta = Find(inputs, "beta"),
                              .initial_state = Find(inputs, "initial_state"),
                              .scale = options.scale};
    const auto sizes = Prepare(args, core.decay_shape, core.has_beta);
    const auto run = [&](const RecurrenceArgs& tiled, const PreparedRecurrence& tiled_sizes) {
      CHECK(tiled_sizes.num_heads == tiled.v.size(2));
      CHECK(tiled_sizes.head_k_dim == tiled.k.size(3));
      CHECK(tiled_sizes.head_v_dim == tiled.v.size(3));
      return DeviceAttempt<RecurrenceResult>{core.reference(tiled), {}};
    };
    const auto result = RunInTiles(args, sizes, tiles, run).result.value();
    return NamedTensors{{"o", result.o}, {"final_state", result.final_state}};
  };
  return entry;
}

void CheckTiles(const ReferenceCore& core, const testing::CoreCase& c, const HeadTiles& tiles) {
  const CoreEntry whole = RecurrenceEntry(core.function, core.decay_shape, core.has_beta);
  const auto inputs = DrawInputs(whole, c, /*seed=*/3);
  const auto expected = RunWithGradients(whole, inputs, {.path = ExecutionPath::kReference});
  const auto actual = RunWithGradients(TiledEntry(core, tiles), inputs, {});
  CHECK(expected.contains("d initial_state") == c.with_optional);
  for (const auto& [name, value] : expected) {
    CAPTURE(core.name, c.head_k_dim, c.head_v_dim, name);
    CHECK(actual.at(name).sizes() == value.sizes());
    CHECK(RelativeError(actual.at(name), value) < kFloat64Tolerance);
  }
}

TEST_CASE("head tiles: padded and tiled heads give what whole heads give, gradients included") {
  for (const ReferenceCore& core : kCores) {
    for (const std::int64_t head_k_dim : {1, 5, 24, 100}) {
      for (const std::int64_t head_v_dim : {3, 24, 130, 257, 512}) {
        const HeadTiles tiles = {
            .keys = TileAxis(head_k_dim, {.values = {16, 32, 64, 128}}, KeyTiles::kOne),
            .values = TileAxis(head_v_dim, {.multiple_of = 8, .max = 128}, KeyTiles::kAny)};
        CheckTiles(
            core,
            {.batch_size = 2, .seq_len = 5, .head_k_dim = head_k_dim, .head_v_dim = head_v_dim},
            tiles);
      }
    }
  }
}

TEST_CASE("head tiles: keys in tiles where nothing is erased, and no state or gates") {
  const HeadTiles tiles = {.keys = TileAxis(100, {.values = {16, 32}}, KeyTiles::kAny),
                           .values = TileAxis(50, {.values = {16, 32}}, KeyTiles::kAny)};
  CHECK(tiles == HeadTiles{{32, 4}, {32, 2}});
  for (const ReferenceCore& core : kCores) {
    if (core.key_tiles == KeyTiles::kOne) continue;
    for (const bool with_optional : {true, false}) {
      CheckTiles(
          core, {.seq_len = 7, .head_k_dim = 100, .head_v_dim = 50, .with_optional = with_optional},
          tiles);
    }
  }
}

TEST_CASE("head tiles: the smallest size, else the fewest tiles") {
  const SizeRange listed = {.values = {16, 32}, .multiple_of = 64};
  CHECK(TileAxis(1, listed, KeyTiles::kAny) == AxisTiles{16, 1});
  CHECK(TileAxis(32, listed, KeyTiles::kAny) == AxisTiles{32, 1});
  CHECK(TileAxis(33, listed, KeyTiles::kAny) == AxisTiles{64, 1});
  CHECK(TileAxis(130, listed, KeyTiles::kAny) == AxisTiles{192, 1});
  const SizeRange bounded = {.multiple_of = 8, .min = 33, .max = 100};
  CHECK(TileAxis(5, bounded, KeyTiles::kAny) == AxisTiles{40, 1});
  CHECK(TileAxis(96, bounded, KeyTiles::kAny) == AxisTiles{96, 1});
  CHECK(TileAxis(97, bounded, KeyTiles::kAny) == AxisTiles{56, 2});
  CHECK(TileAxis(97, bounded, KeyTiles::kOne) == AxisTiles{97, 1});
}

struct PlannedCore {
  const char* name;
  const std::vector<DevicePlan>& plans;  // of the kernels
  KeyTiles key_tiles;
};

TEST_CASE("head tiles: kernels take the tiles of every head, without many zeros") {
  const PlannedCore cores[] = {
      {"simple_gla", DecayScanPlans(DecayAxis::kNone), KeyTiles::kAny},
      {"gla", DecayScanPlans(DecayAxis::kKey), KeyTiles::kAny},
      {"delta_rule", delta_rule::DevicePlans(), KeyTiles::kOne},
  };
  for (const PlannedCore& core : cores) {
    const DevicePlan listed = WithTiledHeads(core.plans, core.key_tiles).back();
    for (const char* dtype : {"bf16", "tf32", "fp32"}) {
      for (std::int64_t head_k_dim = 1; head_k_dim <= 256; ++head_k_dim) {
        for (std::int64_t head_v_dim = 1; head_v_dim <= 520; head_v_dim += 13) {
          const PreparedRecurrence sizes = {.head_k_dim = head_k_dim, .head_v_dim = head_v_dim};
          const auto tiles = TileHeads(sizes, core.plans, dtype, core.key_tiles);
          const std::string refusal =
              Refusal(core.plans, dtype, tiles.keys.size, tiles.values.size);
          const bool is_beyond = core.key_tiles == KeyTiles::kOne && head_k_dim > 128;
          CAPTURE(core.name, dtype, head_k_dim, head_v_dim, refusal);
          if (refusal.empty() == is_beyond) FAIL("kernels do not take what was planned");
          const auto holds = [](const AxisTiles& axis, std::int64_t size) {
            const std::int64_t padded = axis.size * axis.count;
            return padded >= size && (padded < 2 * size || padded <= 16);
          };
          if (!holds(tiles.keys, head_k_dim) || !holds(tiles.values, head_v_dim)) {
            FAIL("tiles too small or too large");
          }
          if (listed.head_k_dim.Contains(head_k_dim) == is_beyond ||
              !listed.head_v_dim.Contains(head_v_dim)) {
            FAIL("the listed range is another one");
          }
        }
      }
    }
  }
}

TEST_CASE("head tiles: the delta rule has a plan for the tiles of every head up to 128 keys") {
  constexpr device::DeviceLimits kHopper = {
      .num_multiprocessors = 132, .shared_memory_bytes = 232448, .has_warpgroups = true};
  using device::OperandPrecision;
  for (const auto precision :
       {OperandPrecision::kBf16, OperandPrecision::kTf32, OperandPrecision::kFp32}) {
    for (const std::int64_t head_k_dim : {1, 5, 24, 40, 100, 128}) {
      for (const std::int64_t head_v_dim : {3, 24, 100, 130, 192, 257, 512}) {
        const auto tiles =
            TileHeads({.head_k_dim = head_k_dim, .head_v_dim = head_v_dim},
                      delta_rule::DevicePlans(), device::NameOf(precision), KeyTiles::kOne);
        CAPTURE(device::NameOf(precision), head_k_dim, head_v_dim);
        CHECK(delta_rule::PlanDeltaRule({.batch_size = 2,
                                         .seq_len = 100,
                                         .num_heads = 4 * tiles.values.count,
                                         .head_k_dim = tiles.keys.size,
                                         .head_v_dim = tiles.values.size,
                                         .precision = precision},
                                        kHopper));
      }
    }
  }
}

TEST_CASE("head tiles: the ranges that are listed") {
  const auto plans = WithTiledHeads(delta_rule::DevicePlans(), KeyTiles::kOne);
  CHECK(plans.front().when == delta_rule::DevicePlans().front().when);
  CHECK(plans.back().when ==
        "the tiles of a chunk fit the shared memory of a CTA; other heads than K 16, 32, 64, 128 "
        "and V 16, 32 or a multiple of 64 are padded with zeros and cut in tiles");
  const auto scans = WithTiledHeads(DecayScanPlans(DecayAxis::kNone), KeyTiles::kAny);
  CHECK(scans.back().when ==
        "other heads than K a multiple of 4 up to 128 and V a multiple of 4 up to 128 are padded "
        "with zeros and cut in tiles");
  for (const char* dtype : {"bf16", "tf32", "fp32"}) CHECK(Refusal(scans, dtype, 300, 7).empty());
}

TEST_CASE("head tiles: the recorded plan says what was padded and cut") {
  const ReferenceCore& core = kCores[2];
  const auto inputs = DrawInputs(RecurrenceEntry(core.function, core.decay_shape, core.has_beta),
                                 {.head_k_dim = 24, .head_v_dim = 100}, /*seed=*/5);
  const RecurrenceArgs args{
      .q = inputs.at("q"), .k = inputs.at("k"), .v = inputs.at("v"), .beta = inputs.at("beta")};
  const auto sizes = Prepare(args, core.decay_shape, core.has_beta);
  const auto plan_of = [&](const HeadTiles& tiles, const char* backward) {
    const PlanRecorder recorder;
    const PlanScope scope("layers.0");
    RunInTiles(args, sizes, tiles, [&](const RecurrenceArgs& tiled, const PreparedRecurrence&) {
      RecordPlan("delta_rule", "chunk_scan", backward);
      return DeviceAttempt<RecurrenceResult>{ReferenceDeltaRule(tiled), {}};
    });
    CHECK(recorder.records().size() == 1);
    return recorder.records().front();
  };
  CHECK(plan_of({{32, 1}, {64, 2}}, "") ==
        PlanRecord{"layers.0", "delta_rule",
                   "chunk_scan, keys padded to 32, values in 2 tiles of 64", "", ""});
  CHECK(plan_of({{24, 1}, {128, 1}}, "fused") == PlanRecord{"layers.0", "delta_rule",
                                                            "chunk_scan, values padded to 128",
                                                            "fused, values padded to 128", ""});
  CHECK(plan_of({{24, 1}, {100, 1}}, "") ==
        PlanRecord{"layers.0", "delta_rule", "chunk_scan", "", ""});
}

TEST_CASE("head tiles: a refusal stays one") {
  const auto inputs = DrawInputs(RecurrenceEntry(Gla, DecayShape::kVector, false), {}, /*seed=*/5);
  const RecurrenceArgs args{.q = inputs.at("q"), .k = inputs.at("k"), .v = inputs.at("v")};
  const auto attempt =
      RunInTiles(args, Prepare(args, DecayShape::kVector, false), {{16, 1}, {16, 1}},
                 [](const RecurrenceArgs&, const PreparedRecurrence&) {
                   return DeviceAttempt<RecurrenceResult>{{}, "too little shared memory"};
                 });
  CHECK(!attempt.result);
  CHECK(attempt.refusal == "too little shared memory");
}

}  // namespace
}  // namespace mixerbench::kernels
