// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention/gla/gla.h"

#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/linear_attention/gla/gla_fused_tiles.h"
#include "kernels/linear_attention/gla/gla_kernels.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;  // a few roundings at 1e-16
constexpr double kFloat32Tolerance = 1e-5;   // some hundred roundings at 6e-8

TEST_CASE("gla: the three tokens of gla.md") {
  const RecurrenceArgs args{
      .q = at::tensor({1., 0., 1., 1., 0., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .k = at::tensor({1., 0., 0., 1., 1., 1.}, at::kDouble).view({1, 3, 1, 2}),
      .v = at::tensor({2., 3., 4.}, at::kDouble).view({1, 3, 1, 1}),
      .log_decay = at::tensor({1., 1., 0.5, 1., 1., 0.25}, at::kDouble).log().view({1, 3, 1, 2}),
      .scale = 1};
  for (const auto path : {ExecutionPath::kReference, ExecutionPath::kFast}) {
    const auto [o, final_state] = Gla(args, path);
    CHECK(RelativeError(o.flatten(), at::tensor({2., 4., 4.75}, at::kDouble)) < kFloat64Tolerance);
    CHECK(RelativeError(final_state.flatten(), at::tensor({5., 4.75}, at::kDouble)) <
          kFloat64Tolerance);
  }
}

TEST_CASE("gla: channels that forget at once leave those that never forget exact") {
  const auto q = RandomNormal({1, 150, 2, 6}, 1, at::kFloat);
  const auto k = RandomNormal({1, 150, 2, 6}, 2, at::kFloat);
  const auto v = RandomNormal({1, 150, 2, 4}, 3, at::kFloat);
  auto log_decay = at::zeros({1, 150, 2, 6}, at::kFloat);
  log_decay.slice(-1, 0, 3).fill_(-20);
  const auto function = [](ExecutionPath path) {
    return [path](const std::vector<at::Tensor>& x) {
      const auto result = Gla({.q = x[0], .k = x[1], .v = x[2], .log_decay = x[3]}, path);
      return std::vector<at::Tensor>{result.o, result.final_state};
    };
  };
  const auto actual = testing::Differentiate(function(ExecutionPath::kFast), {q, k, v, log_decay});
  const auto expected = testing::Differentiate(
      function(ExecutionPath::kReference),
      {q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), log_decay.to(at::kDouble)});
  CHECK(RelativeError(actual, expected) < kFloat32Tolerance);
}

TEST_CASE("gla: the fused plan is for many sequences of heads that it has kernels for") {
  const device::DeviceLimits hopper = {.num_multiprocessors = 132, .shared_memory_bytes = 232448};
  const auto prefers = [&](std::int64_t batch_size, std::int64_t key_dim, std::int64_t value_dim) {
    return gla::SupportsFused({.batch_size = batch_size,
                               .seq_len = 256,
                               .num_heads = 2,
                               .key_dim = key_dim,
                               .value_dim = value_dim},
                              hopper);
  };
  for (const std::int64_t key_dim : {16, 32, 64}) CHECK(prefers(256, key_dim, key_dim));
  for (const std::int64_t key_dim : {16, 32}) CHECK(prefers(256, key_dim, 2 * key_dim));
  CHECK(prefers(34, 64, 64));
  CHECK_FALSE(prefers(33, 64, 64));  // half of the multiprocessors would have nothing to do
  for (const auto& [key_dim, value_dim] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {64, 128}, {128, 128}, {64, 32}, {24, 48}, {8, 16}}) {
    CHECK_FALSE(prefers(256, key_dim, value_dim));
  }
}

TEST_CASE("gla: heads for the fused plan are padded or cut, K above 64 in two tiles") {
  const auto tiles = [](std::int64_t head_k_dim, std::int64_t head_v_dim) {
    PreparedRecurrence sizes;
    sizes.head_k_dim = head_k_dim;
    sizes.head_v_dim = head_v_dim;
    return gla::FusedTiles(sizes);
  };
  CHECK(tiles(32, 64) == HeadTiles{.keys = {32, 1}, .values = {64, 1}});
  CHECK(tiles(12, 24) == HeadTiles{.keys = {16, 1}, .values = {32, 1}});
  CHECK(tiles(64, 128) == HeadTiles{.keys = {64, 1}, .values = {64, 2}});
  CHECK(tiles(65, 64) == HeadTiles{.keys = {64, 2}, .values = {64, 1}});
  CHECK(tiles(128, 128) == HeadTiles{.keys = {64, 2}, .values = {64, 2}});
  CHECK_FALSE(tiles(129, 64));
  CHECK_FALSE(tiles(128, 31));
}

TEST_CASE("gla: a decay without the channel axis is refused") {
  const auto x = RandomNormal({1, 2, 1, 3}, 1);
  CHECK_THROWS_WITH(
      Gla({.q = x, .k = x, .v = x, .log_decay = x.select(-1, 0)}, ExecutionPath::kFast),
      Catch::Contains("log_decay must have shape [1, 2, 1, 3]"));
}

}  // namespace
}  // namespace mixerbench::kernels
