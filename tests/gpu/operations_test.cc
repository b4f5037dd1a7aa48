// The fused functions on a GPU against their references in fp64 on the CPU: outputs and every
// gradient, at awkward sizes, in fp32 and bf16, from poisoned memory, twice with the same bits.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/convolution/direct_convolution.h"
#include "kernels/convolution/short_convolution.h"
#include "kernels/device/hopper_cuda.h"
#include "kernels/device/launch.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gates/gates.h"
#include "kernels/gates/head_scale.h"
#include "kernels/layout/columns.h"
#include "kernels/layout/rows.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_backward_cuda.h"
#include "kernels/linear/linear_forward_cuda.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/linear_cross_entropy_cuda.h"
#include "kernels/noise/dropout.h"
#include "kernels/noise/gumbel_noise.h"
#include "kernels/norm/output_norm.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/rope/rotary.h"
#include "kernels/routing/top_k.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::Derivative;
using testing::Differentiate;
using testing::RandomNormal;
using testing::RandomUniform;
using testing::RelativeError;

// Sums of some thousand terms at 6e-8 a rounding, and exponentials of the special function unit.
constexpr double kFloat32Tolerance = 2e-5;
// The reference in bf16 rounds where the fused function does, or more often (docs/NUMERICS.md).
constexpr double kBFloat16Factor = 2;
constexpr double kBFloat16Unit = 0x1p-8;  // the largest relative error of a rounding

// What a result in bf16 may be off, given what the reference in bf16 is off. That is the root of a
// mean of n squares of up to kBFloat16Unit^2, which over few elements is small by luck: by
// Hoeffding's inequality such means stray by little more than kBFloat16Unit^2 / n^1/2.
double BFloat16Limit(double naive_error, std::int64_t n) {
  const double spread = kBFloat16Unit * kBFloat16Unit / std::sqrt(static_cast<double>(n));
  return kBFloat16Factor * std::sqrt(naive_error * naive_error + spread);
}

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors& inputs, ExecutionPath path)>;

Tensors Convert(const Tensors& inputs, const std::function<at::Tensor(const at::Tensor&)>& f) {
  Tensors converted;
  for (const auto& input : inputs) converted.push_back(input.defined() ? f(input) : input);
  return converted;
}

Derivative Run(const Function& function, const Tensors& inputs, ExecutionPath path) {
  return Differentiate([&](const Tensors& x) { return function(x, path); }, inputs);
}

// `dtypes[i]` is that of input i; kFloat ones stay fp32 in the bf16 case. Truth is the reference in
// fp64 on values that were rounded to those dtypes. `has_bfloat16`: results are rounded to bf16
// though no input is.
void CheckParity(const Function& function, const Tensors& inputs,
                 const std::vector<at::ScalarType>& dtypes, bool has_bfloat16 = false) {
  Tensors rounded;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    rounded.push_back(inputs[i].defined() ? inputs[i].to(dtypes[i]) : inputs[i]);
    has_bfloat16 = has_bfloat16 || dtypes[i] == at::kBFloat16;
  }
  const auto truth =
      Run(function, Convert(rounded, [](const auto& x) { return x.to(at::kDouble); }),
          ExecutionPath::kReference);
  const auto naive = Run(function, rounded, ExecutionPath::kReference);
  const Tensors on_gpu = Convert(rounded, [](const auto& x) { return x.cuda(); });
  const testing::PoisonUninitializedMemory poison;
  const auto fast = Run(function, on_gpu, ExecutionPath::kFast);
  const auto again = Run(function, on_gpu, ExecutionPath::kFast);
  const auto check = [&](const Tensors& actual, const Tensors& repeated,
                         const Tensors& naive_values, const Tensors& wanted,
                         const std::string& what) {
    REQUIRE(actual.size() == wanted.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (!wanted[i].defined()) continue;
      INFO(what << " " << i);
      double limit = kFloat32Tolerance;
      if (has_bfloat16) {
        const auto n = std::max<std::int64_t>(wanted[i].count_nonzero().item<std::int64_t>(), 1);
        limit += BFloat16Limit(RelativeError(naive_values[i], wanted[i]), n);
      }
      CHECK(RelativeError(actual[i], wanted[i]) < limit);
      CHECK(BitwiseEqual(actual[i], repeated[i]));
    }
  };
  check(fast.outputs, again.outputs, naive.outputs, truth.outputs, "output");
  check(fast.gradients, again.gradients, naive.gradients, truth.gradients, "gradient");
}

TEST_CASE("gpu: this program holds device functions") { REQUIRE(HasDeviceFunctions()); }

TEST_CASE("gpu: residual norm") {
  for (const std::int64_t width : {8, 24, 64, 128, 136, 256, 264, 512}) {
    for (const std::int64_t rows : {1, 7, 1000}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        for (const bool has_residual : {false, true}) {
          for (const bool has_mid : {false, true}) {
            for (const bool centred : {false, true}) {
              CAPTURE(width, rows, dtype, has_residual, has_mid, centred);
              const auto weight = [&](std::uint64_t seed) {
                return RandomNormal({width}, seed) * 0.3 + 1;
              };
              const at::Tensor none;
              const Tensors inputs = {has_residual ? RandomNormal({rows, width}, 1) * 3 + 2 : none,
                                      RandomNormal({rows, width}, 2),
                                      weight(3),
                                      centred ? RandomNormal({width}, 4) : none,
                                      has_mid ? weight(5) : none,
                                      has_mid && centred ? RandomNormal({width}, 6) : none};
              CheckParity(
                  [&](const Tensors& x, ExecutionPath path) -> Tensors {
                    ResidualNormArgs args{
                        .residual = x[0], .added = x[1], .norm = {x[2], x[3], 1e-5}};
                    if (has_mid) args.mid = Norm{x[4], x[5], 1e-5};
                    const auto result = ResidualNorm(args, path);
                    return {result.residual, result.normalised};
                  },
                  inputs, {dtype, dtype, at::kFloat, at::kFloat, at::kFloat, at::kFloat});
            }
          }
        }
      }
    }
  }
}

TEST_CASE("gpu: residual norm of which some rows are kept") {
  const at::Tensor rows = at::tensor({4, 1, 0, 0}, at::kLong);
  const at::Tensor entries = at::tensor({2, 1, 4, 4, 0, 4}, at::kLong);
  CheckParity(
      [&](const Tensors& x, ExecutionPath path) -> Tensors {
        const ScoredPositions scored{rows.to(x[0].device()), entries.to(x[0].device())};
        const auto result = ResidualNorm({.residual = x[0],
                                          .added = x[1],
                                          .mid = Norm{x[2], x[3], 1e-5},
                                          .norm = {x[4], x[5], 1e-5},
                                          .scored = &scored},
                                         path);
        return {result.residual.narrow(0, 0, 3), result.normalised};
      },
      {RandomNormal({2, 3, 64}, 1), RandomNormal({2, 3, 64}, 2), RandomNormal({64}, 3),
       RandomNormal({64}, 4), RandomNormal({64}, 5), RandomNormal({64}, 6)},
      std::vector<at::ScalarType>(6, at::kFloat));
}

TEST_CASE("gpu: residual norm of slices, and of rows that hardly vary") {
  const at::Tensor wide = RandomNormal({3, 50, 192}, 1);
  CheckParity(
      [](const Tensors& x, ExecutionPath path) -> Tensors {
        const auto result = ResidualNorm({.residual = x[0].narrow(-1, 64, 64),
                                          .added = x[0].narrow(-1, 4, 64),
                                          .norm = {x[1], x[2], 1e-5}},
                                         path);
        return {result.residual, result.normalised};
      },
      {wide, RandomNormal({64}, 2), RandomNormal({64}, 3)}, {at::kFloat, at::kFloat, at::kFloat});
  // A mean 1e3 times the deviation: one-pass variances lose every digit.
  const at::Tensor flat = RandomNormal({20, 128}, 4) + 1000;
  const at::Tensor rounded = flat.to(at::kFloat).to(at::kDouble);
  const auto fast = ResidualNorm({.added = rounded.to(at::kFloat).cuda(),
                                  .norm = {RandomNormal({128}, 5, at::kFloat).cuda(),
                                           RandomNormal({128}, 6, at::kFloat).cuda(), 1e-5}});
  const auto truth =
      ReferenceResidualNorm({.added = rounded,
                             .norm = {RandomNormal({128}, 5, at::kFloat).to(at::kDouble),
                                      RandomNormal({128}, 6, at::kFloat).to(at::kDouble), 1e-5}});
  constexpr double kLostDigits = 1e-3;  // 1000 ulps of the inputs' own rounding are not lost
  CHECK(RelativeError(fast.normalised, truth.normalised) < kLostDigits);
}

TEST_CASE("gpu: embedding") {
  struct Case {
    std::int64_t batch_size, seq_len, vocab_size, width;
    bool frequent;  // most tokens are 0, as in recall tasks with a filler
  };
  for (const Case& c : {Case{1, 1, 1, 8, false}, Case{3, 70, 11, 64, false},
                        Case{40, 65, 5000, 128, true}, Case{2, 1030, 37, 264, true}}) {
    CAPTURE(c.batch_size, c.seq_len, c.vocab_size, c.width);
    at::Tensor tokens =
        (RandomUniform({c.batch_size, c.seq_len}, 1) * static_cast<double>(c.vocab_size))
            .to(at::kLong);
    if (c.frequent) {
      tokens = tokens * RandomUniform(tokens.sizes(), 2).gt(0.7).to(at::kLong);
    }
    for (const at::ScalarType token_dtype : {at::kInt, at::kLong}) {
      for (const bool is_plain : {false, true}) {  // neither dropout nor positions, RMSNorm
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          CAPTURE(token_dtype, is_plain, dtype);
          const at::Tensor none;
          CheckParity(
              [&](const Tensors& x, ExecutionPath path) -> Tensors {
                const auto seed =
                    at::full({1}, 5, at::TensorOptions(at::kLong).device(x[0].device()));
                const bool is_truth = x[0].scalar_type() == at::kDouble;
                const auto result = Embedding({.tokens = tokens.to(x[0].device(), token_dtype),
                                               .table = x[0],
                                               .positions = x[1],
                                               .dropout_p = is_plain ? 0 : 0.3,
                                               .seed = seed,
                                               .dtype = is_truth ? at::kDouble : dtype,
                                               .norm = {x[2], x[3], 1e-5}},
                                              path);
                return {result.stream, result.normalised};
              },
              {RandomNormal({c.vocab_size, c.width}, 3),
               is_plain ? none : RandomNormal({c.seq_len, c.width}, 4),
               RandomNormal({c.width}, 5) * 0.3 + 1, is_plain ? none : RandomNormal({c.width}, 6)},
              std::vector<at::ScalarType>(4, at::kFloat), dtype == at::kBFloat16);
        }
      }
    }
  }
}

// A table has one gradient, whoever uses it: nothing may be dropped or counted twice.
TEST_CASE("gpu: embedding whose table a head and others use") {
  const at::Tensor tokens = (RandomUniform({30, 20}, 1) * 500).to(at::kInt);  // some ids are absent
  enum User { kNobody, kStream, kBoth, kTable, kStreamAndTable, kAll };
  for (const User user : {kNobody, kStream, kBoth, kTable, kStreamAndTable, kAll}) {
    CAPTURE(user);
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) -> Tensors {
          const auto result = Embedding(
              {.tokens = tokens.to(x[0].device()), .table = x[0], .norm = {x[1], x[2], 1e-5}},
              path);
          Tensors used = {x[1] * 1};
          if (user == kStream || user == kStreamAndTable) used.push_back(result.stream * 1);
          if (user == kBoth || user == kAll) used.push_back(result.stream * result.normalised);
          if (user == kTable || user == kStreamAndTable || user == kAll) {
            used.push_back(result.table * result.table);
          }
          if (user == kAll) used.push_back(x[0] * 3);
          return used;
        },
        {RandomNormal({600, 64}, 3), RandomNormal({64}, 5), RandomNormal({64}, 6)},
        std::vector<at::ScalarType>(3, at::kFloat));
  }
}

TEST_CASE("gpu: Gumbel noise is that of the CPU") {
  const at::Tensor seed = at::full({1}, 11, at::kLong);
  CHECK(RelativeError(GumbelNoise({333, 7}, seed.cuda()).cpu(), GumbelNoise({333, 7}, seed)) <
        1e-6);
}

TEST_CASE("gpu: the k largest are those of the CPU, with ties and NaN") {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t width : {1, 3, 31, 32, 33, 64, 200, 1024, 1025}) {
    at::Tensor x = (RandomNormal({3, 67, width}, 1) * 4).round();  // many equal ones
    x.select(1, 5).select(1, width / 2).fill_(nan);
    x.select(1, 6).fill_(nan);
    for (const std::int64_t k : {std::int64_t{1}, (width + 1) / 2, width}) {
      CAPTURE(width, k);
      CHECK(TopK(x.cuda(), k).cpu().equal(TopK(x, k)));
      CHECK(TopK(x.cuda().transpose(0, 1), k).cpu().equal(TopK(x.transpose(0, 1), k)));
    }
  }
}

TEST_CASE("gpu: dropout masks are those of the CPU") {
  const at::Tensor seed = at::full({1}, 1234567890123456789, at::kLong);
  CHECK(BitwiseEqual(DropoutMask({333, 7}, 0.1, seed), DropoutMask({333, 7}, 0.1, seed.cuda())));
}

TEST_CASE("gpu: rows") {
  for (const std::int64_t width : {8, 12, 128}) {
    const at::Tensor rows = at::tensor({4, 1, 0, 0}, at::kLong);
    const at::Tensor entries = at::tensor({2, 1, 4, 4, 0, 4}, at::kLong);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Function function = [&](const Tensors& x, ExecutionPath) -> Tensors {
        return {GatherRows(x[0], {rows.to(x[0].device()), entries.to(x[0].device())})};
      };
      CheckParity(function, {RandomNormal({2, 3, width}, 1)}, {dtype});
    }
  }
}

TEST_CASE("gpu: cross-entropy") {
  for (const std::int64_t vocab_size : {3, 16, 1000, 8192, 20000}) {
    for (const std::int64_t rows : {1, 9}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        CAPTURE(vocab_size, rows, dtype);
        at::Tensor targets =
            (RandomUniform({rows}, 1) * static_cast<double>(vocab_size)).to(at::kLong);
        if (rows > 2) targets[2] = -100;
        for (const double factor : {1.0, 0.5}) {
          CheckParity(
              [&](const Tensors& x, ExecutionPath path) -> Tensors {
                return {SoftmaxCrossEntropy(x[0], targets.to(x[0].device()), path).loss * factor};
              },
              {RandomNormal({rows, vocab_size}, 2) * 4}, {dtype});
        }
        const at::Tensor logits = (RandomNormal({rows, vocab_size}, 3) * 4).to(dtype);
        const auto fast = SoftmaxCrossEntropy(logits.cuda(), targets.cuda());
        const auto wanted = ReferenceSoftmaxCrossEntropy(logits.to(at::kDouble), targets);
        CHECK(fast.predicted.cpu().equal(wanted.predicted));
        CHECK(RelativeError(fast.nll, wanted.nll) < kFloat32Tolerance);
      }
    }
  }
}

TEST_CASE("gpu: cross-entropy takes the lowest of equal logits and keeps NaN") {
  const at::Tensor equal =
      at::full({2, 4096}, 1.0, at::TensorOptions(at::kFloat).device(at::kCUDA));
  const at::Tensor targets = at::tensor({5, 4000}, at::kLong).cuda();
  CHECK(SoftmaxCrossEntropy(equal, targets).predicted.cpu().equal(at::tensor({0, 0}, at::kLong)));
  at::Tensor broken = equal.clone();
  broken[1][77] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor nll = SoftmaxCrossEntropy(broken, targets).nll.cpu();
  CHECK(nll[0].isfinite().item<bool>());
  CHECK(nll[1].isnan().item<bool>());
}

// Targets in [0, vocab_size), every seventh row but the first does not count.
at::Tensor SomeTargets(std::int64_t rows, std::int64_t vocab_size) {
  at::Tensor targets = (RandomUniform({rows}, 1) * static_cast<double>(vocab_size)).to(at::kLong);
  if (rows > 7) targets.slice(0, 7, rows, 7).fill_(-100);
  return targets;
}

Function HeadLoss(const at::Tensor& targets) {
  return [targets](const Tensors& x, ExecutionPath path) -> Tensors {
    return {LinearCrossEntropy(x[0], x[1], {}, targets.to(x[0].device()), path) * 0.5};
  };
}

const std::vector<at::ScalarType> kHeadTypes = {at::kBFloat16, at::kFloat};

TEST_CASE("gpu: linear cross-entropy") {
  for (const std::int64_t width : {64, 128}) {
    // A tile, less than one and several of rows; vocabularies that tiles divide, do not, and ones
    // that are left to a product and cross-entropy.
    for (const auto& [rows, vocab_size] : {std::pair<std::int64_t, std::int64_t>{128, 8192},
                                           {1, 4224},
                                           {77, 8191},
                                           {300, 5000},
                                           {1111, 4225},
                                           {300, 1000},
                                           {9, 50}}) {
      CAPTURE(width, rows, vocab_size);
      CHECK(LinearCrossEntropySupports({rows, static_cast<int>(vocab_size),
                                        static_cast<int>(width)}) == vocab_size > 4000);
      CheckParity(HeadLoss(SomeTargets(rows, vocab_size)),
                  {RandomNormal({rows, width}, 2), RandomNormal({vocab_size, width}, 3) * 0.2},
                  kHeadTypes);
    }
  }
}

TEST_CASE("gpu: linear cross-entropy with one target for all rows and with rows apart") {
  constexpr std::int64_t kRows = 1000;
  const at::Tensor targets = at::full({kRows}, 4321, at::kLong);
  const Function loss = [&](const Tensors& x, ExecutionPath path) -> Tensors {
    return {LinearCrossEntropy(x[0].narrow(1, 8, 128), x[1], {}, targets.to(x[0].device()), path)};
  };
  CheckParity(loss, {RandomNormal({kRows, 144}, 1), RandomNormal({5000, 128}, 2) * 0.2},
              kHeadTypes);
}

TEST_CASE("gpu: linear cross-entropy of weighted rows") {
  at::Tensor targets = (RandomUniform({77}, 1) * 300).to(at::kLong);
  targets.narrow(0, 30, 5).fill_(-100);
  const at::Tensor weights = RandomUniform({77}, 2, at::kFloat) * 3;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) -> Tensors {
          return {LinearCrossEntropy(x[0], x[1], {}, targets.to(x[0].device()), path, {},
                                     weights.to(x[0].device()))};
        },
        {RandomNormal({77, 64}, 3), RandomNormal({300, 64}, 4)}, {dtype, at::kFloat});
  }
}

TEST_CASE("gpu: linear cross-entropy of extreme logits stays finite, rises of the maximum") {
  constexpr std::int64_t kVocabSize = 8192;
  // Logits that grow along the vocabulary, from -4000 to 4000: exponentials of the next tile are
  // infinite until the shift is raised; and ten times slower: they only become large.
  const at::Tensor growth = at::arange(kVocabSize, at::kDouble) / (kVocabSize / 2) - 1;
  const at::Tensor weight = growth.unsqueeze(1) * RandomNormal({1, 128}, 1);
  for (const double scale : {40.0, 4.0}) {
    CAPTURE(scale);
    const at::Tensor hidden = RandomNormal({300, 128}, 2) * scale;
    CheckParity(HeadLoss(SomeTargets(300, kVocabSize)), {hidden, weight}, kHeadTypes);
  }
}

TEST_CASE("gpu: linear cross-entropy: no row counts, and NaN stays") {
  const at::Tensor weight = RandomNormal({5000, 64}, 1, at::kFloat).cuda().requires_grad_(true);
  const at::Tensor hidden =
      RandomNormal({200, 64}, 2).to(at::kBFloat16).cuda().requires_grad_(true);
  LinearCrossEntropy(hidden, weight, {}, at::full({200}, -100, at::kLong).cuda()).backward();
  CHECK(hidden.grad().eq(0).all().item<bool>());
  CHECK(weight.grad().eq(0).all().item<bool>());
  at::Tensor broken = hidden.detach().clone();
  broken[199][63] = std::numeric_limits<float>::quiet_NaN();
  broken.requires_grad_(true);
  const at::Tensor targets = SomeTargets(200, 5000).cuda();
  CHECK(LinearCrossEntropy(broken, weight, {}, targets).isnan().item<bool>());
}

TEST_CASE("gpu: linear, with outputs of any width") {
  for (const std::int64_t out : {1, 2, 64, 130, 386}) {
    for (const bool has_bias : {false, true}) {
      CAPTURE(out, has_bias);
      CheckParity([](const Tensors& x,
                     ExecutionPath path) -> Tensors { return {Linear(x[0], x[1], x[2], path)}; },
                  {RandomNormal({3, 50, 64}, 1), RandomNormal({out, 64}, 2) * 0.1,
                   has_bias ? RandomNormal({out}, 3) : at::Tensor()},
                  {at::kBFloat16, at::kFloat, at::kFloat});
    }
  }
}

// Every cut of the columns, a last tile of rows that is not full, rows of x and of the gradient
// that stand apart.
TEST_CASE("gpu: linear with gradients in one pass") {
  constexpr std::int64_t kRows = 4107;
  constexpr std::int64_t kApart = 8;
  for (const auto& [in, out, has_bias] :
       {std::tuple{128, 384, true}, std::tuple{128, 386, false}, std::tuple{128, 516, false},
        std::tuple{128, 512, false}, std::tuple{128, 272, false}, std::tuple{128, 250, true},
        std::tuple{128, 128, false}, std::tuple{256, 128, false}, std::tuple{256, 136, true},
        std::tuple{64, 192, true}, std::tuple{64, 5, false}}) {
    CAPTURE(in, out, has_bias);
    CHECK(LinearBackwardSupports({kRows, in, static_cast<int>(PaddedWidth(out)), has_bias}));
    CHECK(IsHopper(0));
    CheckParity(
        [width = in](const Tensors& x, ExecutionPath path) -> Tensors {
          const at::Tensor y = Linear(x[0].narrow(1, kApart, width), x[1], x[2], path);
          return {at::cat({y, x[0]}, 1)};
        },
        {RandomNormal({kRows, in + kApart}, 1), RandomNormal({out, in}, 2) * 0.1,
         has_bias ? RandomNormal({out}, 3) : at::Tensor()},
        {at::kBFloat16, at::kFloat, at::kFloat});
  }
}

// Results of some panels, the last of them not full, with the ring of tiles of x filled more than
// once, and a last tile of rows that is not full.
TEST_CASE("gpu: linear whose weight stays in shared memory") {
  constexpr std::int64_t kApart = 8;
  struct Case {
    std::int64_t rows;
    int in, out;
    bool has_bias;
  };
  for (const auto& [rows, in, out, has_bias] :
       {Case{40001, 128, 516, false}, Case{40001, 128, 386, true}, Case{32801, 128, 256, true},
        Case{70017, 64, 192, true}, Case{80017, 64, 70, false}}) {
    CAPTURE(rows, in, out, has_bias);
    CHECK(LinearForwardSupports({rows, in, static_cast<int>(PaddedWidth(out))}));
    CHECK(IsHopper(0));
    CheckParity(
        [width = in](const Tensors& x, ExecutionPath path) -> Tensors {
          return {Linear(x[0].narrow(1, kApart, width), x[1], x[2], path)};
        },
        {RandomNormal({rows, in + kApart}, 1), RandomNormal({out, in}, 2) * 0.1,
         has_bias ? RandomNormal({out}, 3) : at::Tensor()},
        {at::kBFloat16, at::kFloat, at::kFloat});
  }
}

TEST_CASE("gpu: linear whose weight stays: what is not finite stays where it belongs") {
  constexpr std::int64_t kRows = 32800;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto gpu = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const at::Tensor x = at::ones({kRows, 128}, gpu);
  const at::Tensor weight = at::ones({386, 128}, gpu.dtype(at::kFloat));
  REQUIRE(LinearForwardSupports({kRows, 128, PaddedWidth(386)}));
  x[kRows - 1][127] = kInfinity;
  weight[385][0] = -kInfinity;
  const at::Tensor y = Linear(x, weight, {});
  CHECK(y.narrow(0, 0, kRows - 1).narrow(1, 0, 385).eq(128).all().item<bool>());
  CHECK(y[kRows - 1].narrow(0, 0, 385).eq(kInfinity).all().item<bool>());
  CHECK(y.select(1, 385).narrow(0, 0, kRows - 1).eq(-kInfinity).all().item<bool>());
  CHECK(y[kRows - 1][385].isnan().item<bool>());
}

TEST_CASE("gpu: linear in one pass: what is not finite stays where it belongs") {
  constexpr std::int64_t kRows = 5000;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto gpu = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const at::Tensor x = at::ones({kRows, 128}, gpu);
  const at::Tensor weight = at::ones({386, 128}, gpu.dtype(at::kFloat)).requires_grad_(true);
  const at::Tensor gradient = at::ones({kRows, 386}, gpu);
  gradient[kRows - 1][385] = kInfinity;
  x[0][127] = -kInfinity;
  const at::Tensor input = x.requires_grad_(true);
  Linear(input, weight, {}).backward(gradient);
  const at::Tensor d_x = input.grad();
  CHECK(d_x.narrow(0, 0, kRows - 1).eq(386).all().item<bool>());
  CHECK(d_x[kRows - 1].eq(kInfinity).all().item<bool>());
  const at::Tensor d_weight = weight.grad();
  CHECK(d_weight.narrow(0, 0, 385).narrow(1, 0, 127).eq(kRows).all().item<bool>());
  CHECK(d_weight[385].narrow(0, 0, 127).eq(kInfinity).all().item<bool>());
  CHECK(d_weight.select(1, 127).narrow(0, 0, 385).eq(-kInfinity).all().item<bool>());
  CHECK(d_weight[385][127].isnan().item<bool>());
}

TEST_CASE("gpu: linear of which some columns are wanted at scored positions") {
  constexpr std::int64_t kFilled = 3;  // entries at the end that repeat row 0
  struct Case {
    std::int64_t num_rows;
    std::int64_t num_scored;
    std::int64_t in;
    std::vector<ColumnBlock> blocks;
    bool has_bias;
  };
  // Runs that begin between multiples of eight rows of the weight, end in padding that covers whole
  // runs after them, and are unused. The widths are above the threshold of FormsScoredApart. In the
  // last case gradients of each run are formed in one pass.
  for (const Case& c : {Case{8400, 40, 24, {{512, true}, 24, 40, 5}, true},
                        Case{8400, 40, 24, {12, 4, {520, true}}, false},
                        Case{8400, 40, 24, {{500, true}, 5, {13, true}, 3, {1, true}}, true},
                        Case{17010, 4100, 64, {{330, true}, 61}, true}}) {
    const at::Tensor rows = at::zeros({c.num_scored}, at::kLong);
    const at::Tensor entries = at::full({c.num_rows}, c.num_scored, at::kLong);
    for (std::int64_t i = 0; i < c.num_scored - kFilled; ++i) {
      const std::int64_t row = (i * 211) % c.num_rows;
      rows[i].fill_(row);
      entries[row].fill_(i);
    }
    std::int64_t out = 0;
    std::int64_t out_scored = 0;
    for (const ColumnBlock& block : c.blocks) {
      out += block.size;
      if (block.scored) out_scored += block.size;
    }
    REQUIRE(FormsScoredApart(c.num_rows, c.num_scored, out_scored));
    CAPTURE(out, c.has_bias);
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) -> Tensors {
          const ScoredPositions selection{rows.to(x[0].device()), entries.to(x[0].device())};
          Tensors y = LinearColumns(x[0], x[1], x[2], c.blocks, &selection, path);
          for (std::size_t i = 0; i < y.size(); ++i) {
            if (c.blocks[i].scored) y[i] = y[i].narrow(0, 0, c.num_scored - kFilled);
          }
          return y;
        },
        {RandomNormal({7, c.num_rows / 7, c.in}, 1), RandomNormal({out, c.in}, 2) * 0.1,
         c.has_bias ? RandomNormal({out}, 3) : at::Tensor()},
        {at::kBFloat16, at::kFloat, at::kFloat});
  }
}

TEST_CASE("gpu: linear from copies of its parameters in bf16") {
  const at::Tensor x = RandomNormal({50, 64}, 1).to(at::kBFloat16).cuda();
  const at::Tensor weight = RandomNormal({130, 64}, 2, at::kFloat).cuda();
  const at::Tensor bias = RandomNormal({130}, 3, at::kFloat).cuda();
  const auto padded = [](const at::Tensor& parameter) {
    const auto zeros = parameter.narrow(0, 0, kShadowPadding).mul(0);
    return at::cat({parameter, zeros}).to(at::kBFloat16);
  };
  const auto run = [&](const ShadowWeights& narrow) {
    return Differentiate(
        [&](const Tensors& in) -> Tensors {
          return {Linear(in[0], in[1], in[2], ExecutionPath::kFast, narrow)};
        },
        {x, weight, bias});
  };
  const auto own = run({});
  const auto given = run({.weight = padded(weight), .bias = padded(bias)});
  CHECK(BitwiseEqual(own.outputs[0], given.outputs[0]));
  for (std::size_t i = 0; i < own.gradients.size(); ++i) {
    CHECK(BitwiseEqual(own.gradients[i], given.gradients[i]));
  }
  // Only where they are defined, and then for what they hold.
  const auto doubled = run({.weight = padded(weight * 2)});
  CHECK(RelativeError(doubled.outputs[0] - bias, (own.outputs[0] - bias) * 2) < kBFloat16Unit);
}

TEST_CASE("gpu: columns at scored positions alone leave the rest without gradient") {
  const at::Tensor x = RandomNormal({65536, 64}, 1).to(at::kBFloat16).cuda();
  const at::Tensor weight = RandomNormal({72, 64}, 2, at::kFloat).cuda().requires_grad_(true);
  const at::Tensor rows = at::tensor({5, 70}, at::kLong).cuda();
  at::Tensor entries = at::full({65536}, 2, rows.options());
  entries[5] = 0;
  entries[70] = 1;
  const ScoredPositions selection{rows, entries};
  const testing::PoisonUninitializedMemory poison;
  const at::Tensor input = x.clone().requires_grad_(true);
  LinearColumns(input, weight, {}, {4, {68, true}}, &selection)[1].sum().backward();
  CHECK(weight.grad().narrow(0, 0, 4).count_nonzero().item<std::int64_t>() == 0);
  CHECK(BitwiseEqual(weight.grad()[4], weight.grad()[71]));
  CHECK(input.grad().count_nonzero().item<std::int64_t>() == 2 * 64);
}

TEST_CASE("gpu: functions that write their columns of one gradient") {
  constexpr std::int64_t kConvolved = 24, kGate = 16, kTaken = 8, kInner = 8;
  const at::Tensor rows = at::tensor({3, 50, 79}, at::kLong);
  const at::Tensor entries = at::full({80}, 3, at::kLong);
  for (std::int64_t i = 0; i < 3; ++i) entries[rows[i].item<std::int64_t>()].fill_(i);
  for (const std::int64_t heads : {1, 3, 5}) {
    const std::vector<ColumnBlock> blocks = {kConvolved, kGate, kTaken, kInner, 2 * heads};
    const std::int64_t out = kConvolved + kGate + kTaken + kInner + 2 * heads;  // and padding
    CAPTURE(heads);
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) -> Tensors {
          const ScoredPositions selection{rows.to(x[0].device()), entries.to(x[0].device())};
          const Tensors y = LinearColumns(x[0], x[1], {}, blocks, nullptr, path);
          const auto gates = ComputeDeltaGates({.z = y[4], .A_log = x[5], .dt_bias = x[6]}, path);
          return {ShortConvolution({.x = y[0], .weight = x[2], .silu = true}, path),
                  OutputNorm({.x = x[3],
                              .gate = y[1].unflatten(-1, {2, kGate / 2}),
                              .weight = x[4],
                              .activation = GateActivation::kSilu},
                             path),
                  GatherRows(y[2], selection, path),
                  Linear(y[3], x[7], {}, path),
                  gates.beta,
                  gates.log_decay};
        },
        {RandomNormal({2, 40, 16}, 1), RandomNormal({out, 16}, 2) * 0.3,
         RandomNormal({kConvolved, 4}, 3), RandomNormal({2, 40, 2, kGate / 2}, 4),
         RandomNormal({kGate / 2}, 5), RandomNormal({heads}, 6), RandomNormal({heads}, 7),
         RandomNormal({32, kInner}, 8)},
        {at::kBFloat16, at::kFloat, at::kFloat, at::kBFloat16, at::kFloat, at::kFloat, at::kFloat,
         at::kFloat});
  }
}

TEST_CASE("gpu: short convolution") {
  struct Case {
    std::int64_t batch_size, seq_len, channels, width, norm_channels, norm_dim;
    bool bias, silu;
  };
  for (const Case& c :
       {Case{2, 1, 8, 2, 0, 0, true, false}, Case{3, 37, 136, 3, 0, 0, true, false},
        Case{2, 64, 384, 4, 256, 64, false, true}, Case{2, 33, 192, 4, 128, 32, false, true},
        Case{1, 100, 40, 4, 32, 8, true, true}, Case{1, 70, 512, 4, 256, 128, false, false},
        Case{3, 130, 1544, 4, 1024, 64, true, true}, Case{66, 256, 64, 4, 32, 16, false, true},
        Case{5, 257, 384, 4, 256, 64, false, true}, Case{7, 19, 512, 2, 384, 128, true, true},
        Case{300, 16, 24, 3, 8, 8, false, true}}) {
    CAPTURE(c.seq_len, c.channels, c.width, c.norm_channels, c.norm_dim);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      CheckParity(
          [&](const Tensors& x, ExecutionPath path) -> Tensors {
            return {ShortConvolution({.x = x[0].narrow(-1, 0, c.channels),
                                      .weight = x[1],
                                      .bias = x[2],
                                      .silu = c.silu,
                                      .norm_channels = c.norm_channels,
                                      .norm_dim = c.norm_dim},
                                     path)};
          },
          {RandomNormal({c.batch_size, c.seq_len, c.channels + 8}, 1),
           RandomNormal({c.channels, c.width}, 2),
           c.bias ? RandomNormal({c.channels}, 3) : at::Tensor()},
          {dtype, at::kFloat, at::kFloat});
    }
  }
}

TEST_CASE("gpu: direct convolution") {
  struct Case {
    std::int64_t batch_size, num_inputs, num_taps, num_outputs, channels;
  };
  for (const Case& c :
       {Case{1, 1, 1, 1, 1}, Case{2, 7, 7, 7, 3}, Case{3, 40, 40, 1, 33}, Case{2, 16, 5, 16, 32},
        Case{1, 128, 128, 128, 64}, Case{3, 319, 64, 256, 40}, Case{5, 256, 256, 256, 96},
        Case{2, 300, 300, 129, 31}, Case{9, 257, 200, 257, 32}, Case{40, 129, 129, 100, 20},
        Case{2, 700, 17, 700, 8}, Case{1, 1000, 1000, 1000, 8}}) {
    CAPTURE(c.batch_size, c.num_inputs, c.num_taps, c.num_outputs, c.channels);
    const Tensors inputs = {RandomNormal({c.batch_size, c.num_inputs, c.channels + 1}, 1),
                            RandomNormal({c.num_taps, c.channels}, 2)};
    const Function convolve = [&](const Tensors& x, ExecutionPath path) -> Tensors {
      return {DirectConvolution(x[0].narrow(-1, 0, c.channels), x[1], c.num_outputs, path)};
    };
    CheckParity(convolve, inputs, {at::kFloat, at::kFloat});
    // Channels that are not neighbours in memory.
    const Tensors turned = {inputs[0].mT().contiguous(), inputs[1].mT().contiguous()};
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) {
          return convolve({x[0].mT(), x[1].mT()}, path);
        },
        turned, {at::kFloat, at::kFloat});
    // One input for all sequences, one filter for all channels.
    CheckParity(
        [&](const Tensors& x, ExecutionPath path) {
          return convolve({x[0].expand({c.batch_size, -1, -1}), x[1].expand({-1, c.channels})},
                          path);
        },
        {inputs[0].narrow(0, 0, 1), inputs[1].narrow(1, 0, 1)}, {at::kFloat, at::kFloat});
  }
}

TEST_CASE(
    "gpu: direct convolution: what is not finite reaches no earlier token, no other channel") {
  constexpr std::int64_t kLength = 300, kChannels = 40, kChannel = 35, kSequence = 1;
  const at::Tensor filter = RandomNormal({kLength, kChannels}, 2).to(at::kFloat).cuda();
  const at::Tensor clean = RandomNormal({3, kLength, kChannels}, 1).to(at::kFloat).cuda();
  const at::Tensor expected = DirectConvolution(clean, filter, kLength);
  for (const std::int64_t token : {0, 1, 15, 16, 127, 128, 200, 299}) {
    for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      CAPTURE(token, value);
      at::Tensor u = clean.clone();
      u[kSequence][token][kChannel] = value;
      const at::Tensor y = DirectConvolution(u, filter, kLength);
      at::Tensor reached = at::zeros_like(y, at::kBool);
      reached[kSequence].select(-1, kChannel).narrow(0, token, kLength - token).fill_(true);
      CHECK_FALSE(y.masked_select(reached).isfinite().any().item<bool>());
      CHECK(BitwiseEqual(y.masked_fill(reached, 0), expected.masked_fill(reached, 0)));
    }
  }
}

TEST_CASE("gpu: rotary, of columns of a projection and at far positions") {
  const auto [rotary_dim, first_position] =
      GENERATE(table<std::int64_t, std::int64_t>({{16, 0}, {8, 1'000'000}, {16, -37}}));
  CAPTURE(rotary_dim, first_position);
  const Function function = [&](const Tensors& x, ExecutionPath path) {
    const auto columns = SplitColumns(x[0], {2 * 3 * 16, 24});
    const at::Tensor turned =
        RotateHalf(columns[0].unflatten(-1, {6, 16}), first_position, rotary_dim, path);
    return Tensors{turned, columns[1]};
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    CheckParity(function, {RandomNormal({5, 37, 120}, 1, at::kFloat)}, {dtype});
  }
}

TEST_CASE("gpu: output norm") {
  struct Gated {
    GateActivation activation;
    bool before_norm = false;
  };
  struct Size {
    std::int64_t tokens, heads, head_dim;
  };
  for (const auto& [tokens, heads, head_dim] :
       {Size{17, 3, 8}, Size{17, 3, 40}, Size{17, 3, 64}, Size{17, 3, 128}, Size{17, 3, 264},
        // More heads than groups of lanes in a block, and than the blocks of a backward pass take
        // in one turn.
        Size{5, 19, 512}, Size{4501, 3, 64}}) {
    for (const Gated gating : {Gated{GateActivation::kNone}, Gated{GateActivation::kSilu},
                               Gated{GateActivation::kSigmoid}, Gated{GateActivation::kSilu, true},
                               Gated{GateActivation::kSigmoid, true}}) {
      const bool gated = gating.activation != GateActivation::kNone;
      CAPTURE(tokens, heads, head_dim, gated, gating.before_norm);
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        CheckParity(
            [&](const Tensors& x, ExecutionPath path) -> Tensors {
              return {OutputNorm(
                  {.x = x[0],
                   .gate =
                       gated ? x[1].narrow(-1, 8, heads * head_dim).unflatten(-1, {heads, head_dim})
                             : at::Tensor(),
                   .weight = x[2],
                   .activation = gating.activation,
                   .gate_before_norm = gating.before_norm},
                  path)};
            },
            {RandomNormal({2, tokens, heads, head_dim}, 1),
             RandomNormal({2, tokens, heads * head_dim + 8}, 2) * 3, RandomNormal({head_dim}, 3)},
            {dtype, dtype, at::kFloat});
      }
    }
  }
}

TEST_CASE("gpu: output norm of heads that share what is read, with a gate of columns before it") {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    CheckParity(
        [](const Tensors& x, ExecutionPath path) -> Tensors {
          const auto columns = SplitColumns(x[1], {4 * 64, 8}, path);
          return {OutputNorm({.x = x[0].expand({-1, -1, 4, -1}),
                              .gate = columns[0].unflatten(-1, {4, 64}),
                              .weight = x[2],
                              .activation = GateActivation::kSilu,
                              .gate_before_norm = true},
                             path),
                  columns[1]};
        },
        {RandomNormal({2, 33, 1, 64}, 1), RandomNormal({2, 33, 4 * 64 + 8}, 2),
         RandomNormal({64}, 3)},
        {dtype, dtype, at::kFloat});
  }
}

TEST_CASE("gpu: gates") {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const double floor : {0.0, -0.2}) {
      CheckParity(
          [&](const Tensors& x, ExecutionPath path) -> Tensors {
            return {LogSigmoidDecay(x[0].narrow(-1, 1, 30), 16, floor, path)};
          },
          {RandomNormal({3, 41, 33}, 1) * 4}, {dtype});
    }
    for (const std::int64_t heads : {1, 2, 6, 35, 64}) {
      for (const bool has_decay : {false, true}) {
        CAPTURE(heads, has_decay);
        CheckParity(
            [&](const Tensors& x, ExecutionPath path) -> Tensors {
              const auto gates =
                  ComputeDeltaGates({.z = x[0].narrow(-1, 3, has_decay ? 2 * heads : heads),
                                     .beta_scale = 2,
                                     .A_log = x[1],
                                     .dt_bias = x[2]},
                                    path);
              return has_decay ? Tensors{gates.beta, gates.log_decay} : Tensors{gates.beta};
            },
            {RandomNormal({3, 150, 2 * heads + 3}, 1) * 3,
             has_decay ? RandomNormal({heads}, 2) : at::Tensor(),
             has_decay ? RandomNormal({heads}, 3) : at::Tensor()},
            {dtype, at::kFloat, at::kFloat});
      }
    }
    CheckParity(
        [](const Tensors& x, ExecutionPath path) -> Tensors { return {Swiglu(x[0], path)}; },
        {RandomNormal({3, 7, 48}, 1) * 3}, {dtype});
  }
}

TEST_CASE("gpu: heads times a number each") {
  for (const std::int64_t head_dim : {8, 64, 256}) {
    for (const std::int64_t num_heads : {1, 3, 4}) {
      for (const std::int64_t rows : {1, 7, 5000}) {
        for (const bool scale_of_rows : {false, true}) {
          for (const bool has_base : {false, true}) {
            for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
              CAPTURE(head_dim, num_heads, rows, scale_of_rows, has_base, dtype);
              const std::int64_t width = num_heads * head_dim;
              CheckParity(
                  [&](const Tensors& x, ExecutionPath path) -> Tensors {
                    const at::Tensor heads =
                        x[0].narrow(-1, 8, width).unflatten(-1, {num_heads, head_dim});
                    return {ScaleHeads(heads, x[1], x[2], path)};
                  },
                  {RandomNormal({1, rows, width + 16}, 1),
                   scale_of_rows ? RandomNormal({1, rows, num_heads}, 2)
                                 : RandomNormal({num_heads}, 2),
                   has_base ? RandomNormal({1, rows, num_heads, head_dim}, 3) : at::Tensor()},
                  {dtype, at::kFloat, dtype});
            }
          }
        }
      }
    }
  }
}

TEST_CASE("gpu: heads that share what is multiplied, and more heads than blocks") {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool scale_of_rows : {false, true}) {
      CAPTURE(dtype, scale_of_rows);
      CheckParity(
          [](const Tensors& x, ExecutionPath path) -> Tensors {
            return {
                ScaleHeads(x[0].expand({-1, -1, 5, -1}), x[1], x[2].expand({-1, -1, 5, -1}), path)};
          },
          {RandomNormal({3, 50, 1, 16}, 1),
           scale_of_rows ? RandomNormal({3, 50, 5}, 2) : RandomNormal({5}, 2),
           RandomNormal({3, 50, 1, 16}, 3)},
          {dtype, at::kFloat, dtype});
      // More heads of a row than the backward pass has blocks.
      CheckParity([](const Tensors& x,
                     ExecutionPath path) -> Tensors { return {ScaleHeads(x[0], x[1], {}, path)}; },
                  {RandomNormal({300, 1100, 8}, 4),
                   scale_of_rows ? RandomNormal({300, 1100}, 5) : RandomNormal({1100}, 5)},
                  {dtype, at::kFloat});
    }
  }
}

TEST_CASE("gpu: adamw over more tensors than one launch takes") {
  for (const double clip : {0.0, 0.5, 1e9}) {
    const auto run = [&](at::Device device, ExecutionPath path) {
      std::vector<AdamWTensor> tensors;
      for (std::uint64_t i = 0; i < 100; ++i) {
        const auto size = static_cast<std::int64_t>(i == 7 ? 70'000 : 1 + 13 * i);
        tensors.push_back({RandomNormal({size}, 1 + i, at::kFloat).to(device),
                           RandomNormal({size}, 200 + i, at::kFloat).to(device),
                           at::zeros({size}, at::TensorOptions(at::kFloat).device(device)),
                           at::zeros({size}, at::TensorOptions(at::kFloat).device(device)),
                           i % 2 == 0 ? 0.1 : 0});
        if (i % 3 == 0) tensors[i].narrow = at::empty_like(tensors[i].parameter, at::kBFloat16);
      }
      const auto options = at::TensorOptions(at::kFloat).device(device);
      for (int step = 1; step <= 3; ++step) {
        AdamWStep(tensors, at::full({}, 0.01, options), at::full({}, step, options),
                  {.grad_clip = clip}, path);
      }
      return tensors;
    };
    const auto fast = run(at::kCUDA, ExecutionPath::kFast);
    const auto again = run(at::kCUDA, ExecutionPath::kFast);
    const auto wanted = run(at::kCPU, ExecutionPath::kReference);
    for (std::size_t i = 0; i < fast.size(); ++i) {
      CAPTURE(clip, i);
      CHECK(RelativeError(fast[i].parameter, wanted[i].parameter) < kFloat32Tolerance);
      if (fast[i].narrow.defined()) {
        CHECK(BitwiseEqual(fast[i].narrow, fast[i].parameter.to(at::kBFloat16)));
      }
      CHECK(RelativeError(fast[i].first_moment, wanted[i].first_moment) < kFloat32Tolerance);
      CHECK(RelativeError(fast[i].second_moment, wanted[i].second_moment) < kFloat32Tolerance);
      CHECK(BitwiseEqual(fast[i].parameter, again[i].parameter));
    }
  }
}

TEST_CASE("gpu: extreme logits give finite gates and gradients") {
  const at::Tensor z = at::tensor({-1e4, -88., 0., 88., 1e4, 1.}, at::kFloat).view({1, 6}).cuda();
  const auto check = [&](const std::function<at::Tensor(const at::Tensor&)>& f) {
    const at::Tensor x = z.clone().requires_grad_(true);
    const at::Tensor y = f(x);
    y.sum().backward();
    CHECK(y.isfinite().all().item<bool>());
    CHECK(x.grad().isfinite().all().item<bool>());
  };
  const at::Tensor parameter = at::full({3}, 2.0, z.options());
  check([](const at::Tensor& x) { return LogSigmoidDecay(x, 16); });
  check([](const at::Tensor& x) {
    return Swiglu(at::cat({x, x, x, x.narrow(1, 0, 4)}, 1).narrow(1, 0, 16));
  });
  check([&](const at::Tensor& x) {
    return ComputeDeltaGates({.z = x, .A_log = parameter, .dt_bias = parameter}).log_decay;
  });
}

}  // namespace
}  // namespace mixerbench::kernels
