// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/scan/decay_scan.h"

#include <algorithm>
#include <string_view>

#include "kernels/linear_attention/scan/decay_scan_layout.h"
#include "kernels/linear_attention/scan/decay_scan_plans.h"
#include "kernels/linear_attention/scan/wgmma_scan_layout.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels::decay_scan {
namespace {

constexpr DeviceLimits kHopper = {.num_multiprocessors = 132, .shared_memory_bytes = 232448};
constexpr DeviceLimits kHopperGroups = {
    .num_multiprocessors = 132, .shared_memory_bytes = 232448, .has_warpgroups = true};
constexpr DeviceLimits kAmpere = {.num_multiprocessors = 108, .shared_memory_bytes = 166912};

ScanProblem Problem(std::int64_t batch_size, std::int64_t seq_len, std::int64_t num_heads,
                    std::int64_t key_dim, std::int64_t value_dim,
                    OperandPrecision precision = OperandPrecision::kBf16) {
  return {.batch_size = batch_size,
          .seq_len = seq_len,
          .num_heads = num_heads,
          .key_dim = key_dim,
          .value_dim = value_dim,
          .precision = precision};
}

TEST_CASE("decay scan plan: sequences that fill the device are scanned whole") {
  for (const auto& problem : {Problem(8, 4096, 8, 128, 128), Problem(256, 256, 2, 64, 64),
                              Problem(64, 512, 2, 64, 64), Problem(1, 100000, 70, 64, 64)}) {
    const ScanPlan plan = PlanScan(problem, DecayAxis::kNone, kHopper);
    CHECK(plan.num_segments == 1);
    CHECK(plan.tokens_per_segment >= problem.seq_len);
    CHECK(plan.value_tile == 64);
    CHECK(plan.num_producers == 4);
  }
}

TEST_CASE("decay scan plan: few long sequences are cut until they fill the device") {
  const ScanPlan plan = PlanScan(Problem(1, 131072, 8, 128, 128), DecayAxis::kNone, kHopper);
  CHECK(plan.num_segments == 8);  // 8 heads, 2 value tiles: 128 blocks for 132 multiprocessors
  CHECK(plan.tokens_per_segment == 16384);
  // Below 128 key channels two blocks share a multiprocessor.
  CHECK(PlanScan(Problem(1, 131072, 8, 64, 64), DecayAxis::kNone, kHopper).num_segments == 33);
}

TEST_CASE("decay scan plan: segments cover the sequence and end with chunks") {
  for (const std::int64_t seq_len : {1, 17, 64, 65, 255, 1000, 4096, 8191, 131072}) {
    for (const std::int64_t num_heads : {1, 2, 8, 64, 500}) {
      const ScanPlan plan =
          PlanScan(Problem(1, seq_len, num_heads, 64, 96), DecayAxis::kKey, kHopper);
      CAPTURE(seq_len, num_heads);
      CHECK(plan.tokens_per_segment % kScanChunk == 0);
      CHECK(static_cast<std::int64_t>(plan.num_segments) * plan.tokens_per_segment >= seq_len);
      CHECK(static_cast<std::int64_t>(plan.num_segments - 1) * plan.tokens_per_segment < seq_len);
    }
  }
}

TEST_CASE("decay scan plan: slots fit the shared memory of the device and keep every warp busy") {
  for (const DeviceLimits& limits : {kHopper, kAmpere}) {
    for (const auto precision : {OperandPrecision::kBf16, OperandPrecision::kFp32}) {
      for (const auto axis : {DecayAxis::kNone, DecayAxis::kKey, DecayAxis::kValue}) {
        for (const std::int64_t dim : {16, 32, 64, 128}) {
          const ScanPlan plan = PlanScan(Problem(8, 4096, 8, dim, dim, precision), axis, limits);
          const ScanLayout layout(precision == OperandPrecision::kBf16 ? 2 : 4, PaddedKeys(dim),
                                  plan.value_tile, axis, plan.num_slots,
                                  plan.lookahead * plan.num_producers);
          CAPTURE(dim, plan.num_producers, plan.lookahead, plan.num_slots);
          CHECK((dim == 128 ? 1 : 2) * layout.bytes <= limits.shared_memory_bytes);
          CHECK(layout.slot_bytes % 16 == 0);
          CHECK(layout.key_gates_bytes % 16 == 0);
          CHECK(plan.num_producers >= (limits.num_multiprocessors == 132 ? 2 : 1));
          CHECK(plan.lookahead >= 1);
          // A producer waits for a slot that was used this many blocks ago; if that were a block on
          // its way or in its own hands, it would wait for itself.
          CHECK(plan.num_slots > plan.lookahead * plan.num_producers);
        }
      }
    }
  }
}

TEST_CASE("decay scan plan: narrow and short problems get few warps and slots") {
  const ScanPlan plan = PlanScan(Problem(2, 17, 3, 16, 24), DecayAxis::kNone, kHopper);
  CHECK(plan.value_tile == 32);
  CHECK(plan.num_producers == 2);
  CHECK(plan.num_slots == 2);
  CHECK(plan.num_segments == 1);
}

TEST_CASE("decay scan plan: simple GLA in bf16 goes by chunks where warpgroups multiply") {
  const auto uses_wgmma = [](const ScanProblem& problem, DecayAxis axis,
                             const DeviceLimits& limits) {
    return PlanScan(problem, axis, limits).uses_wgmma;
  };
  CHECK(uses_wgmma(Problem(8, 4096, 8, 128, 128), DecayAxis::kNone, kHopperGroups));
  CHECK(uses_wgmma(Problem(256, 256, 2, 64, 64), DecayAxis::kNone, kHopperGroups));
  CHECK(uses_wgmma(Problem(2, 17, 3, 40, 104), DecayAxis::kNone, kHopperGroups));
  CHECK_FALSE(uses_wgmma(Problem(8, 4096, 8, 128, 128), DecayAxis::kNone, kHopper));
  CHECK_FALSE(uses_wgmma(Problem(8, 4096, 8, 128, 128), DecayAxis::kKey, kHopperGroups));
  CHECK_FALSE(uses_wgmma(Problem(8, 4096, 8, 128, 128), DecayAxis::kValue, kHopperGroups));
  CHECK_FALSE(uses_wgmma(Problem(8, 4096, 8, 128, 128, OperandPrecision::kTf32), DecayAxis::kNone,
                         kHopperGroups));
  // Tiles would be half empty.
  CHECK_FALSE(uses_wgmma(Problem(256, 256, 2, 32, 64), DecayAxis::kNone, kHopperGroups));
  CHECK_FALSE(uses_wgmma(Problem(256, 256, 2, 64, 32), DecayAxis::kNone, kHopperGroups));
}

TEST_CASE("decay scan plan: slots of chunks fit the shared memory, with copies under way") {
  for (const std::int64_t dim : {40, 64, 72, 128}) {
    for (const bool has_factor : {false, true}) {
      for (const std::int64_t seq_len : {1, 300, 131072}) {
        auto problem = Problem(1, seq_len, 8, dim, dim);
        char factor = 0;
        if (has_factor) problem.factor.data = &factor;
        const ScanPlan plan = PlanScan(problem, DecayAxis::kNone, kHopperGroups);
        const int keys = dim <= 64 ? 64 : 128;
        const WgmmaScanLayout layout(keys, plan.num_slots, has_factor);
        CAPTURE(dim, has_factor, seq_len, plan.num_slots);
        REQUIRE(plan.uses_wgmma);
        CHECK(plan.value_tile == 64);
        CHECK(plan.max_blocks == kHopperGroups.num_multiprocessors);
        CHECK(layout.bytes <= kHopperGroups.shared_memory_bytes);
        // A producer that copied into the slot in its own hands, or into one that is not scanned
        // before the chunk in its hands, would wait for itself.
        CHECK(plan.num_slots > plan.lookahead * kWgmmaScanProducers);
        // Where copies start early, they do not wait for the chunk before the one in hand.
        CHECK((plan.num_slots >= plan.lookahead * kWgmmaScanProducers + 2 ||
               (keys == 128 && has_factor)));
        CHECK(plan.lookahead >= 1);
        CHECK(plan.lookahead <= 3);
        CHECK(layout.slot_bytes % WgmmaScanLayout::kAlignment == 0);
        CHECK(plan.tokens_per_segment % kChunkTokens == 0);
      }
    }
  }
}

TEST_CASE("decay scan plan: every plan has a name that is listed with sizes that it takes") {
  const auto listed = [](DecayAxis axis, std::string_view name, std::string_view dtype,
                         std::int64_t dim) {
    const auto& plans = DecayScanPlans(axis);
    return std::any_of(plans.begin(), plans.end(), [&](const DevicePlan& plan) {
      const auto& dtypes = plan.dtypes;
      return plan.name == name && plan.head_k_dim.Contains(dim) && plan.head_v_dim.Contains(dim) &&
             std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
    });
  };
  for (const DecayAxis axis : {DecayAxis::kNone, DecayAxis::kKey}) {
    for (const DeviceLimits& limits : {kHopper, kHopperGroups, kAmpere}) {
      for (const std::int64_t dim : {8, 32, 40, 128}) {
        for (const std::int64_t seq_len : {64, 8192}) {
          const auto problem = Problem(1, seq_len, 2, dim, dim);
          CHECK(listed(axis, NameOf(PlanScan(problem, axis, limits)), "bf16", dim));
        }
      }
    }
  }
  const auto name = [](std::int64_t batch_size, const DeviceLimits& limits) {
    return NameOf(PlanScan(Problem(batch_size, 4096, 2, 64, 64), DecayAxis::kNone, limits));
  };
  CHECK(name(256, kHopper) == "chunk_scan");
  CHECK(name(1, kHopper) == "chunk_parallel");
  CHECK(name(256, kHopperGroups) == "chunk_scan_wgmma");
  CHECK(name(1, kHopperGroups) == "chunk_parallel_wgmma");
  CHECK_FALSE(listed(DecayAxis::kKey, "chunk_scan_wgmma", "bf16", 64));
}

TEST_CASE("decay scan plan: a refusal names the head size") {
  const auto& plans = DecayScanPlans(DecayAxis::kNone);
  CHECK(Refusal(plans, "bf16", 64, 128).empty());
  CHECK(Refusal(plans, "tf32", 12, 128).empty());
  CHECK(Refusal(plans, "bf16", 12, 128) == "head_k_dim 12 is no multiple of 8");
  CHECK(Refusal(plans, "bf16", 128, 256) == "head_v_dim 256 is above 128");
}

}  // namespace
}  // namespace mixerbench::kernels::decay_scan
