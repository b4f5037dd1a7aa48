// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/decay_rows.h"

#include "kernels/cuda/decay_rows_layout.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels::cuda {
namespace {

constexpr DeviceLimits kHopper = {.num_multiprocessors = 132, .shared_memory_bytes = 232448};

bool HasKernel(std::int64_t seq_len, std::int64_t num_rows, std::int64_t key_dim,
               std::int64_t value_dim) {
  return HasDecayRowsKernel({.seq_len = seq_len,
                             .key_dim = key_dim,
                             .value_dim = value_dim,
                             .rows_per_sequence = num_rows},
                            kHopper);
}

TEST_CASE("decay rows plan: sequences that fit shared memory as a whole, at the compiled sizes") {
  CHECK(HasKernel(256, 16, 32, 64));
  CHECK(HasKernel(256, 64, 32, 64));
  CHECK(HasKernel(256, 16, 64, 128));
  CHECK(HasKernel(1, 1, 16, 16));
  CHECK_FALSE(HasKernel(256, 16, 48, 48));
  CHECK_FALSE(HasKernel(256, 16, 32, 128));
  CHECK_FALSE(HasKernel(256, 16, 128, 128));
  CHECK_FALSE(HasKernel(4096, 16, 32, 64));
  CHECK_FALSE(HasKernel(std::int64_t{1} << 40, 16, 32, 64));
}

TEST_CASE("decay rows plan: a few rows are read from scores, more from states") {
  const auto prefers = [](std::int64_t seq_len, std::int64_t num_rows, std::int64_t key_dim) {
    return PrefersDecayRows({.seq_len = seq_len,
                             .key_dim = key_dim,
                             .value_dim = 2 * key_dim,
                             .rows_per_sequence = num_rows},
                            kHopper);
  };
  CHECK(prefers(256, 16, 32));
  CHECK(prefers(256, 64, 32));
  CHECK(prefers(64, 4, 16));
  CHECK_FALSE(prefers(256, 65, 32));
  CHECK_FALSE(prefers(64, 64, 16));
  CHECK_FALSE(prefers(256, 16, 24));
}

TEST_CASE(
    "decay rows layout: parts start at multiples of 16, and shares of o fit where keys were") {
  for (const int keys : {16, 32, 64}) {
    for (const int values : {keys, 2 * keys}) {
      for (const std::int64_t seq_len : {1, 17, 100, 256}) {
        const DecayRowsCut cut(seq_len, 20);
        const DecayRowsLayout forward(keys, values, cut, RowsPass::kForward);
        const DecayRowsLayout backward(keys, values, cut, RowsPass::kBackward);
        CAPTURE(keys, values, seq_len);
        for (const DecayRowsLayout& l : {forward, backward}) {
          for (const int offset : {l.gates, l.k, l.v, l.q, l.d_o, l.d_q, l.row_gates, l.positions,
                                   l.prefix, l.partial}) {
            CHECK(offset % 16 == 0);
          }
        }
        CHECK(cut.num_warps * kRowTile * values * 4 <= forward.q);
        CHECK(backward.bytes > forward.bytes);
      }
    }
  }
}

TEST_CASE("decay rows layout: two blocks of threads share a multiprocessor at L 256, K 32, V 64") {
  const DecayRowsLayout layout(32, 64, DecayRowsCut(256, 16), RowsPass::kBackward);
  constexpr int kReservedBytes = 1024;  // the driver's share of every block
  CHECK(2 * (layout.bytes + kReservedBytes) <= kHopper.shared_memory_bytes);
}

}  // namespace
}  // namespace mixerbench::kernels::cuda
