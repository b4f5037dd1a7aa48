// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/channel_decay.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/zeros.h>

#include "tests/support/compare.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kTolerance = 1e-12;  // some roundings at 1e-16
constexpr std::int64_t kChunks = 3, kLength = 8, kChannels = 5;

// E [M,C,C,D] by its definition, zeros for j >= i.
at::Tensor Between(const at::Tensor& log_decay) {
  auto between = at::zeros({kChunks, kLength, kLength, kChannels}, at::kDouble);
  for (std::int64_t i = 0; i < kLength; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      between.select(1, i).select(1, j).copy_(at::exp(log_decay.slice(1, j + 1, i + 1).sum(1)));
    }
  }
  return between;
}

TEST_CASE("channel decay: the products with E are what they say") {
  const auto x = RandomNormal({kChunks, kLength, kChannels}, 1);
  const auto y = RandomNormal({kChunks, kLength, kChannels}, 2);
  const auto scores = RandomNormal({kChunks, kLength, kLength}, 3);
  auto log_decay = -RandomNormal({kChunks, kLength, kChannels}, 4).abs();
  log_decay.select(2, 0).mul_(1000);
  const auto between = Between(log_decay);
  const ChannelDecay decay(log_decay);
  CHECK(RelativeError(decay.Scores(x, y), at::einsum("mid,mjd,mijd->mij", {x, y, between})) <
        kTolerance);
  CHECK(RelativeError(decay.Gather(scores, y),
                      at::einsum("mij,mjd,mijd->mid", {scores, y, between})) < kTolerance);
  CHECK(RelativeError(decay.Scatter(scores, x),
                      at::einsum("mij,mid,mijd->mjd", {scores, x, between})) < kTolerance);
  const auto b = log_decay.cumsum(1);
  CHECK(RelativeError(decay.from_start(), at::exp(b)) < kTolerance);
  const auto last = b.narrow(1, kLength - 1, 1);
  CHECK(RelativeError(decay.to_end(), at::exp(last - b)) < kTolerance);
  CHECK(RelativeError(decay.whole(), at::exp(last).mT()) < kTolerance);
}

TEST_CASE("channel decay: states and their gradients scan in opposite directions") {
  const auto initial = RandomNormal({2, 3, 4}, 1), writes = RandomNormal({6, 3, 4}, 2);
  const auto whole = RandomNormal({6, 3, 1}, 3).sigmoid();
  const auto states = ScanStates(initial, writes, whole);
  CHECK(states.entering.slice(0, 0, 2).equal(initial));
  const auto leaving = LeavingStates(states);
  CHECK(RelativeError(leaving, whole * states.entering + writes) < kTolerance);
  CHECK(leaving.slice(0, 4).equal(states.final_state));

  const auto d_final = RandomNormal({2, 3, 4}, 4), reads = RandomNormal({6, 3, 4}, 5);
  const auto gradients = ScanStateGradients(d_final, reads, whole);
  CHECK(gradients.leaving.slice(0, 4).equal(d_final));
  // The pairing of the two is what a scalar product of states and their gradients conserves.
  const auto forward = (states.final_state * d_final).sum() + (states.entering * reads).sum();
  const auto backward =
      (initial * gradients.initial_state).sum() + (writes * gradients.leaving).sum();
  CHECK(RelativeError(forward, backward) < kTolerance);
}

TEST_CASE("channel decay: a chunk is a power of two, shorter where that saves padding") {
  const auto size = [](std::int64_t seq_len, std::int64_t most) {
    const auto chunking = CutInPowersOfTwo(seq_len, most);
    CHECK(chunking.num_chunks * chunking.chunk_size >= seq_len);
    CHECK((chunking.num_chunks - 1) * chunking.chunk_size < seq_len);
    return chunking.chunk_size;
  };
  CHECK(size(1, 64) == 1);
  CHECK(size(3, 64) == 4);
  CHECK(size(256, 64) == 64);
  CHECK(size(256, 48) == 32);
  CHECK(size(65, 64) == 16);
  CHECK(size(63, 64) == 64);
  CHECK(size(5, 1) == 1);
}

}  // namespace
}  // namespace mixerbench::kernels
