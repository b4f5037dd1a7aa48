// SPDX-License-Identifier: Apache-2.0
#include "kernels/chunking.h"

#include <cmath>

#include <ATen/ops/arange.h>
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
  const auto b = at::tensor({0.0, -1.0, -1001.0}, at::kFloat).unsqueeze(0).requires_grad_(true);
  const auto decay = CausalDecay(b);
  const auto values = decay.detach();
  CHECK(values[0][0][0].item<float>() == 1);
  CHECK(values[0][1][0].item<float>() == std::exp(-1.0F));
  CHECK(values[0][2][0].item<float>() == 0);
  CHECK(values[0].triu(1).count_nonzero().item<std::int64_t>() == 0);
  decay.sum().backward();
  CHECK(at::isfinite(b.grad()).all().item<bool>());
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
