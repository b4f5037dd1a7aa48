// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/chunking.h"

#include <cmath>
#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

TEST_CASE("chunking: chunks are as few and as even as the limit allows") {
  for (std::int64_t seq_len = 1; seq_len <= 200; ++seq_len) {
    const auto cut = CutEvenly(seq_len, 64);
    CAPTURE(seq_len);
    CHECK(cut.chunk_size <= 64);
    CHECK(cut.num_chunks == (seq_len + 63) / 64);
    CHECK(cut.num_chunks * cut.chunk_size >= seq_len);
    CHECK(cut.num_chunks * cut.chunk_size - seq_len < cut.num_chunks);
  }
  CHECK(CutEvenly(65, 64).chunk_size == 33);
  CHECK(CutEvenly(10, 64).chunk_size == 10);
}

TEST_CASE("chunking: a split puts chunks before sequences, pads with zeros and can be merged") {
  const auto x = testing::RandomNormal({2, 7, 3, 4}, 1);
  const auto cut = CutEvenly(7, 4);
  const auto chunks = SplitChunks(x, cut, at::kDouble);
  REQUIRE(chunks.sizes() == at::IntArrayRef{2 * 2 * 3, 4, 4});
  // Chunk 1 of batch row 1, head 2 holds tokens 4, 5, 6 and one token of padding.
  const auto chunk = chunks[1 * 6 + 1 * 3 + 2];
  CHECK(chunk.slice(0, 0, 3).equal(x[1].select(1, 2).slice(0, 4, 7)));
  CHECK(chunk[3].count_nonzero().item<std::int64_t>() == 0);
  CHECK(MergeChunks(chunks, cut, 3).equal(x));
}

TEST_CASE("chunking: decays of far pairs vanish without overflow, forward and backward") {
  const auto g = at::tensor({0.0, -1.0, -1000.0}, at::kFloat).unsqueeze(0).requires_grad_(true);
  const auto decay = CausalDecay(LogDecaySums(g));
  const auto values = decay.detach();
  CHECK(values[0][0][0].item<float>() == 1);
  CHECK(values[0][1][0].item<float>() == std::exp(-1.0F));
  CHECK(values[0][2][0].item<float>() == 0);
  CHECK(values[0].triu(1).count_nonzero().item<std::int64_t>() == 0);
  decay.sum().backward();
  CHECK(at::isfinite(g.grad()).all().item<bool>());
}

// Every token of a chunk resets but the last two, whose decay a cumulative sum in one part would
// have lost.
TEST_CASE("chunking: sums of log decays forget what came before the earlier token") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double reset : {-1e4, -1e30, -kInfinity}) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      CAPTURE(reset, dtype);
      auto g = at::full({1, 64}, reset, dtype);
      g[0][62] = -0.125;
      g[0][63] = -0.3;
      g.requires_grad_(true);
      const auto decay = CausalDecay(LogDecaySums(g));
      const auto expected = at::eye(64, dtype);
      expected[62][61] = std::exp(-0.125);
      expected[63][62] = std::exp(-0.3);
      expected[63][61] = std::exp(-0.425);
      const double tolerance = dtype == at::kFloat ? 1e-7 : 1e-15;
      CHECK(testing::RelativeError(decay.detach().squeeze(0), expected) < tolerance);
      decay.sum().backward();
      CHECK(g.grad().narrow(1, 0, 62).count_nonzero().item<std::int64_t>() == 0);
      CHECK(std::abs(g.grad()[0][63].item<double>() - std::exp(-0.3) - std::exp(-0.425)) <
            tolerance);
    }
  }
}

TEST_CASE("chunking: a scan hands every chunk the state of the one before") {
  const auto states =
      ScanChunks(at::arange(2, at::kDouble).view({2, 1, 1}), 3,
                 [](std::int64_t n, const at::Tensor& state) { return state.mul(10).add(n); });
  CHECK(
      states.entering.flatten().equal(at::tensor({0.0, 1.0, 0.0, 10.0, 1.0, 101.0}, at::kDouble)));
  CHECK(states.final_state.flatten().equal(at::tensor({12.0, 1012.0}, at::kDouble)));
}

}  // namespace
}  // namespace mixerbench::kernels
