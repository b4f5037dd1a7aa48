// Chosen rows of vector decay on a GPU against the reference recurrence in fp64, outputs and every
// gradient. Without a GPU every case fails.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include "kernels/vector_decay/vector_decay.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Differentiate;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

// Operands of bf16 products are rounded once before each, results once more: a few times 2^-9.
constexpr double kBf16Tolerance = 6e-3;
// The gradient of a log decay sums q dq - k dk over all later tokens. What a row and the key at its
// position have in common cancels up to the rounding of operands, and every earlier token gets what
// is left. Seen: 2e-2, where nothing but that is left.
constexpr double kRoundedDifference = 4e-2;

struct Sizes {
  std::int64_t batch_size, seq_len, num_heads, head_k_dim, head_v_dim, num_rows;
};

// R rows in each sequence, spread at random; every third sequence has half of them, and surplus
// entries.
struct Choice {
  fused::RowSelection rows;
  at::Tensor counts;  // [B,R,1,1]: 0 for surplus entries
};

Choice ChooseRows(const Sizes& s) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(s.batch_size * s.num_rows));
  std::vector<std::int64_t> entries(static_cast<std::size_t>(s.batch_size * s.seq_len),
                                    static_cast<std::int64_t>(rows.size()));
  std::vector<double> counts(rows.size());
  for (std::int64_t b = 0; b < s.batch_size; ++b) {
    const std::int64_t wanted = b % 3 == 2 ? s.num_rows / 2 : s.num_rows;
    const at::Tensor order =
        RandomUniform({s.seq_len}, static_cast<std::uint64_t>(b)).argsort().narrow(0, 0, wanted);
    const at::Tensor positions = std::get<0>(order.sort()).contiguous();
    for (std::int64_t r = 0; r < wanted; ++r) {
      const auto entry = static_cast<std::size_t>(b * s.num_rows + r);
      rows[entry] = b * s.seq_len + positions.const_data_ptr<std::int64_t>()[r];
      entries[static_cast<std::size_t>(rows[entry])] = static_cast<std::int64_t>(entry);
      counts[entry] = 1;
    }
  }
  return {{at::tensor(rows, at::kLong), at::tensor(entries, at::kLong), s.num_rows},
          at::tensor(counts, at::kDouble).view({s.batch_size, s.num_rows, 1, 1})};
}

at::Tensor Rounded(at::IntArrayRef sizes, std::uint64_t seed) {
  return RandomNormal(sizes, seed, at::kFloat).to(at::kBFloat16);
}

// Each element is one of `values`.
at::Tensor LogDecays(at::IntArrayRef sizes, const std::vector<double>& values) {
  const auto index = (RandomUniform(sizes, 9) * static_cast<double>(values.size())).to(at::kLong);
  return at::tensor(values, at::kFloat).index({index});
}

void CheckCase(const Sizes& s, const std::vector<double>& log_decays) {
  CAPTURE(s.batch_size, s.seq_len, s.num_heads, s.head_k_dim, s.head_v_dim, s.num_rows,
          log_decays[0], log_decays.size());
  const Choice choice = ChooseRows(s);
  const std::vector<std::int64_t> keys = {s.batch_size, s.seq_len, s.num_heads, s.head_k_dim};
  const std::vector<at::Tensor> inputs = {
      Rounded({s.batch_size, s.num_rows, s.num_heads, s.head_k_dim}, 1), Rounded(keys, 2),
      Rounded({s.batch_size, s.seq_len, s.num_heads, s.head_v_dim}, 3),
      LogDecays(keys, log_decays)};
  const auto differentiate = [&](ExecutionPath path, const std::vector<at::Tensor>& x) {
    const fused::RowSelection rows = {choice.rows.rows.to(x[0].device()),
                                      choice.rows.entries.to(x[0].device()), s.num_rows};
    const at::Tensor counts = choice.counts.to(x[0].options());
    return Differentiate(
        [&](const std::vector<at::Tensor>& leaves) {
          RecurrenceArgs args;
          args.q = leaves[0];
          args.k = leaves[1];
          args.v = leaves[2];
          args.log_decay = leaves[3];
          args.rows = &rows;
          return std::vector<at::Tensor>{VectorDecay(args, path).o * counts};
        },
        x);
  };
  std::vector<at::Tensor> wide;
  std::vector<at::Tensor> on_gpu;
  for (const at::Tensor& x : inputs) {
    wide.push_back(x.to(at::kDouble));
    on_gpu.push_back(x.cuda());
  }
  const auto expected = differentiate(ExecutionPath::kReference, wide);
  const auto actual = differentiate(ExecutionPath::kFast, on_gpu);
  const auto again = differentiate(ExecutionPath::kFast, on_gpu);
  CHECK(RelativeError(actual.outputs[0].cpu(), expected.outputs[0]) < kBf16Tolerance);
  CHECK(BitwiseEqual(actual.outputs[0].cpu(), again.outputs[0].cpu()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    // The gradient of log decays is a difference of terms as large as that of q, and as small as
    // the decay itself: its error is measured against both.
    const auto with_scale = [&](const testing::Derivative& d) {
      if (i != 3) return d.gradients[i].cpu();
      return at::cat(
          {d.gradients[3].cpu().flatten().to(at::kDouble), expected.gradients[0].flatten()});
    };
    CHECK(RelativeError(with_scale(actual), with_scale(expected)) <
          (i == 3 ? kRoundedDifference : kBf16Tolerance));
    CHECK(BitwiseEqual(actual.gradients[i].cpu(), again.gradients[i].cpu()));
  }
}

TEST_CASE("decay rows gpu: every decay") {
  for (const std::vector<double>& log_decays :
       {std::vector<double>{0},
        {-0.01},
        {-1},
        {-20},
        {0, -0.01, -1, -20},
        {-std::numeric_limits<double>::infinity(), -0.01, -0.1, -0.01, -0.001}}) {
    CheckCase({3, 256, 2, 32, 64, 16}, log_decays);
    CheckCase({3, 77, 1, 16, 16, 19}, log_decays);
  }
}

TEST_CASE("decay rows gpu: every head size, odd lengths, from one row to all", "[sanitizer]") {
  for (const std::int64_t head_k_dim : {16, 32, 64}) {
    for (const std::int64_t head_v_dim : {head_k_dim, 2 * head_k_dim}) {
      CheckCase({3, 100, 2, head_k_dim, head_v_dim, 20}, {-0.1, -3});
    }
  }
  CheckCase({4, 1, 2, 32, 64, 1}, {-0.1});
  CheckCase({4, 15, 2, 32, 64, 15}, {-0.1});
  CheckCase({4, 15, 1, 64, 64, 3}, {-0.1});  // a block of threads is one warp
  CheckCase({2, 200, 1, 32, 32, 70}, {-0.1});
}

TEST_CASE("decay rows gpu: tensors that are columns of one projection") {
  const Sizes s = {2, 64, 2, 32, 32, 4};
  const Choice choice = ChooseRows(s);
  const fused::RowSelection rows = {choice.rows.rows.cuda(), choice.rows.entries.cuda(), 4};
  const at::Tensor packed = Rounded({2, 64, 2, 72}, 1).cuda();
  RecurrenceArgs args;
  args.q = Rounded({2, 4, 2, 32}, 2).cuda();
  args.k = packed.narrow(-1, 0, 32);
  args.v = packed.narrow(-1, 40, 32);
  args.log_decay = LogDecays({2, 64, 2, 32}, {-0.1}).cuda();
  args.rows = &rows;
  const at::Tensor sliced = VectorDecay(args, ExecutionPath::kFast).o;
  args.k = args.k.contiguous();
  args.v = args.v.contiguous();
  CHECK(BitwiseEqual(sliced.cpu(), VectorDecay(args, ExecutionPath::kFast).o.cpu()));
}

TEST_CASE("decay rows gpu: what has no device code is gathered from all outputs") {
  const Sizes s = {2, 33, 2, 24, 24, 5};
  const Choice choice = ChooseRows(s);
  const fused::RowSelection rows = {choice.rows.rows.cuda(), choice.rows.entries.cuda(), 5};
  RecurrenceArgs args;
  args.q = Rounded({2, 5, 2, 24}, 1).cuda();
  args.k = Rounded({2, 33, 2, 24}, 2).cuda();
  args.v = Rounded({2, 33, 2, 24}, 3).cuda();
  args.log_decay = LogDecays({2, 33, 2, 24}, {-0.1}).cuda();
  args.rows = &rows;
  CHECK_FALSE(vector_decay::PrefersRows(args.k, 5, 24, 24));
  CHECK(RelativeError(VectorDecay(args, ExecutionPath::kFast).o,
                      VectorDecay(args, ExecutionPath::kReference).o) < kBf16Tolerance);
}

}  // namespace
}  // namespace mixerbench::kernels
