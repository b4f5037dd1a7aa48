// The references of the fused functions against their formulas, and their gradients against central
// differences. That the GPU computes the same is shown by tests/gpu/fused_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "kernels/differentiable.h"
#include "kernels/fused/adamw.h"
#include "kernels/fused/columns.h"
#include "kernels/fused/cross_entropy.h"
#include "kernels/fused/dropout.h"
#include "kernels/fused/embedding.h"
#include "kernels/fused/embedding_device.h"
#include "kernels/fused/gates.h"
#include "kernels/fused/linear.h"
#include "kernels/fused/linear_backward_device.h"
#include "kernels/fused/linear_cross_entropy.h"
#include "kernels/fused/linear_cross_entropy_device.h"
#include "kernels/fused/linear_forward_device.h"
#include "kernels/fused/output_norm.h"
#include "kernels/fused/residual_norm.h"
#include "kernels/fused/residual_norm_device.h"
#include "kernels/fused/rotary.h"
#include "kernels/fused/rows.h"
#include "kernels/fused/short_convolution.h"
#include "kernels/fused/short_convolution_device.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels::fused {
namespace {

using testing::BitwiseEqual;
using testing::GradientCheckError;
using testing::RandomNormal;
using testing::RelativeError;

constexpr double kFloat64Tolerance = 1e-12;       // a few roundings at 1e-16
constexpr double kGradientCheckTolerance = 1e-7;  // docs/NUMERICS.md

at::Tensor Longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

at::Tensor Seed(std::int64_t value) { return at::full({1}, value, at::kLong); }

TEST_CASE("differentiable: gradients arrive, unused outputs are zero, second derivatives refuse") {
  const at::Tensor a = RandomNormal({3}, 1).requires_grad_(true);
  const at::Tensor b = RandomNormal({3}, 2).requires_grad_(true);
  const auto product = [&] {
    at::Tensor c;
    at::Tensor unused;
    {
      const at::NoGradGuard no_grad;
      c = a * b;
      unused = a + b;
    }
    SetBackward("Product", {a, b}, {c, unused}, {a, b, c},
                [](const BackwardArgs& args) -> std::vector<at::Tensor> {
                  REQUIRE(args.saved.size() == 3);
                  CHECK_FALSE(args.grads[1].defined());
                  CHECK(args.wanted == std::vector<bool>{true, true});
                  return {args.grads[0] * args.saved[1], args.grads[0] * args.saved[0]};
                });
    return c;
  };
  product().sum().backward();
  CHECK(BitwiseEqual(a.grad(), b));
  CHECK(BitwiseEqual(b.grad(), a));
  {
    const at::NoGradGuard no_grad;
    CHECK_FALSE(product().requires_grad());
  }
  CHECK_THROWS_WITH(product().sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true),
                    Catch::Contains("Product has no second derivative"));
}

TEST_CASE("residual norm: the stream, zoology's identity mixer and both norms") {
  const at::Tensor residual = RandomNormal({2, 3, 5}, 1);
  const at::Tensor added = RandomNormal({2, 3, 5}, 2);
  const Norm mid{RandomNormal({5}, 3), RandomNormal({5}, 4), 1e-5};
  const Norm norm{RandomNormal({5}, 5), RandomNormal({5}, 6), 1e-3};
  const auto layer_norm = [](const Norm& n, const at::Tensor& x) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + n.eps).sqrt() * n.weight + n.bias;
  };
  const at::Tensor s = residual + added;
  const auto plain = ResidualNorm({.residual = residual, .added = added, .norm = norm});
  CHECK(RelativeError(plain.residual, s) < kFloat64Tolerance);
  CHECK(RelativeError(plain.normalised, layer_norm(norm, s)) < kFloat64Tolerance);
  const at::Tensor u = s + layer_norm(mid, s);
  const auto both = ResidualNorm({.residual = residual, .added = added, .mid = mid, .norm = norm});
  CHECK(RelativeError(both.residual, u) < kFloat64Tolerance);
  CHECK(RelativeError(both.normalised, layer_norm(norm, u)) < kFloat64Tolerance);
  const auto rms = ResidualNorm({.added = added, .norm = {.weight = norm.weight, .eps = 1e-3}});
  const at::Tensor root = (added.square().mean(-1, true) + 1e-3).sqrt();
  CHECK(RelativeError(rms.normalised, added / root * norm.weight) < kFloat64Tolerance);
}

TEST_CASE("residual norm: a stream in bf16 is added and normalised in fp32") {
  const at::Tensor residual = RandomNormal({50, 16}, 1).to(at::kBFloat16);
  const at::Tensor added = RandomNormal({50, 16}, 2).to(at::kBFloat16);
  const Norm norm{RandomNormal({16}, 3, at::kFloat), RandomNormal({16}, 4, at::kFloat), 1e-5};
  const auto narrow = ResidualNorm({.residual = residual, .added = added, .norm = norm});
  const auto wide = ResidualNorm(
      {.residual = residual.to(at::kFloat), .added = added.to(at::kFloat), .norm = norm});
  CHECK(BitwiseEqual(narrow.residual, wide.residual.to(at::kBFloat16)));
  CHECK(BitwiseEqual(narrow.normalised, wide.normalised.to(at::kBFloat16)));
}

TEST_CASE("residual norm: gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({2, 3, 4}, 2),
                                          RandomNormal({4}, 3),       RandomNormal({4}, 4),
                                          RandomNormal({4}, 5),       RandomNormal({4}, 6)};
  const auto function = [](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = ResidualNorm({.residual = x[0],
                                      .added = x[1],
                                      .mid = Norm{x[2], x[3], 1e-5},
                                      .norm = {x[4], x[5], 1e-5}});
    return {result.residual, result.normalised};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
}

TEST_CASE("residual norm: a stream of which some rows are kept") {
  const RowSelection kept{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = ResidualNorm({.added = x[0], .norm = {x[1]}, .kept = &kept});
    return {result.residual.narrow(0, 0, 3), result.normalised};
  };
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({4}, 2)};
  CHECK(
      BitwiseEqual(function(inputs)[0], inputs[0].flatten(0, 1).index_select(0, Longs({4, 1, 0}))));
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
}

TEST_CASE("residual norm: which rows a device function takes") {
  CHECK(ResidualNormSupports(1000, 64));
  CHECK(ResidualNormSupports(1, 512));
  CHECK_FALSE(ResidualNormSupports(1, 0));
  CHECK_FALSE(ResidualNormSupports(1, 60));
  CHECK_FALSE(ResidualNormSupports(1, 520));
  CHECK_FALSE(ResidualNormSupports(1LL << 30, 64));
}

TEST_CASE("dropout masks: a function of seed and index with the right share of zeros") {
  const at::Tensor mask = DropoutMask({100, 1001}, 0.25, Seed(7));
  CHECK(((mask == 0) | (mask == 1)).all().item<bool>());
  CHECK(BitwiseEqual(mask.flatten().narrow(0, 0, 7), DropoutMask({7}, 0.25, Seed(7))));
  CHECK_FALSE(BitwiseEqual(mask, DropoutMask({100, 1001}, 0.25, Seed(8))));
  // Five standard errors of a mean of 1e5 draws.
  CHECK(std::abs(mask.mean().item<double>() - 0.75) < 5 * std::sqrt(0.25 * 0.75 / 1e5));
  CHECK(DropoutMask({5}, 0, Seed(7)).equal(at::ones({5})));
  CHECK(KeptShare(1 - 1e-9) > 0);
}

TEST_CASE("embedding: rows, positions, the mask and the norm") {
  const at::Tensor tokens = at::tensor({0, 2, 2, 1, 0, 2}, at::kInt).view({2, 3});
  const at::Tensor table = RandomNormal({3, 4}, 1);
  const at::Tensor positions = RandomNormal({3, 4}, 2);
  const Norm norm{RandomNormal({4}, 3), RandomNormal({4}, 4), 1e-3};
  const auto embed = [&](const std::vector<at::Tensor>& x) {
    return Embedding({.tokens = tokens,
                      .table = x[0],
                      .positions = x[1],
                      .dropout_p = 0.5,
                      .seed = Seed(3),
                      .norm = {x[2], x[3], norm.eps}});
  };
  const std::vector<at::Tensor> inputs = {table, positions, norm.weight, norm.bias};
  const auto out = embed(inputs);
  const at::Tensor mask = DropoutMask({2, 3, 4}, 0.5, Seed(3));
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 3; ++t) {
      const auto token = tokens[b][t].item<std::int64_t>();
      CHECK(RelativeError(out.stream[b][t], (table[token] + positions[t]) * mask[b][t] * 2) <
            kFloat64Tolerance);
    }
  }
  CHECK(BitwiseEqual(out.normalised, ResidualNorm({.added = out.stream, .norm = norm}).normalised));
  CHECK(BitwiseEqual(out.table, table));
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto result = embed(x);
    return {result.stream, result.normalised, result.table};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  const EmbeddingArgs no_seed{.tokens = tokens, .table = table, .dropout_p = 0.5, .norm = norm};
  CHECK_THROWS_WITH(Embedding(no_seed), Catch::Contains("dropout needs a seed"));
  const EmbeddingArgs no_norm{.tokens = tokens, .table = table, .norm = {}};
  CHECK_THROWS_WITH(Embedding(no_norm), Catch::Contains("an embedding has a norm"));
}

TEST_CASE("rows: gathered, and each row of the gradient has one source") {
  const RowSelection selection{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const at::Tensor x = RandomNormal({2, 3, 5}, 1).requires_grad_(true);
  const at::Tensor taken = GatherRows(x, selection);
  const at::Tensor expected = x.detach().flatten(0, 1).index_select(0, selection.rows);
  CHECK(BitwiseEqual(taken, expected));
  const at::Tensor gradient = RandomNormal({4, 5}, 2);
  taken.backward(gradient);
  at::Tensor wanted = at::zeros({6, 5}, at::kDouble);
  wanted[4] = gradient[0];
  wanted[1] = gradient[1];
  wanted[0] = gradient[2];  // entry 3 only fills: its gradient is dropped
  CHECK(BitwiseEqual(x.grad().flatten(0, 1), wanted));
}

TEST_CASE("cross-entropy: formula, ignored rows, ties and gradient") {
  const at::Tensor logits =
      at::tensor({1., 3., 3., 0., 0., 0., 5., 6., 7.}, at::kDouble).view({3, 3});
  const at::Tensor targets = Longs({2, -100, 0});
  const auto result = SoftmaxCrossEntropy(logits, targets);
  const double first = std::log(std::exp(-2.) + 2);
  const double last = 2 + std::log(1 + std::exp(-1.) + std::exp(-2.));
  CHECK(RelativeError(result.nll, at::tensor({first, 0., last}, at::kDouble)) < kFloat64Tolerance);
  CHECK(std::abs(result.loss.item<double>() - (first + last) / 2) < kFloat64Tolerance);
  CHECK(result.predicted.equal(Longs({1, 0, 2})));
  const auto loss = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {SoftmaxCrossEntropy(x[0], targets).loss};
  };
  CHECK(GradientCheckError(loss, {RandomNormal({3, 3}, 1)}) < kGradientCheckTolerance);
}

TEST_CASE("cross-entropy: large logits stay finite, in bf16 too") {
  const at::Tensor logits = at::tensor({1e4, -1e4, 0.}, at::kDouble).view({1, 3});
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto result = SoftmaxCrossEntropy(logits.to(dtype), Longs({0}));
    CHECK(result.loss.item<double>() == 0);
    CHECK(result.loss.scalar_type() == (dtype == at::kDouble ? at::kDouble : at::kFloat));
  }
}

// A function of columns whose gradients are `first`, first + 1, ..., written where EmptyTogether
// says; `memory` becomes where the first of them lies.
at::Tensor Consume(const std::vector<at::Tensor>& columns, double first, const void** memory) {
  const at::Tensor out = at::zeros({}, at::kDouble);
  SetBackward("Consume", columns, {out}, columns,
              [=](const BackwardArgs& args) -> std::vector<at::Tensor> {
                const auto gradients = EmptyTogether(args.saved);
                for (std::size_t i = 0; i < gradients.size(); ++i) {
                  gradients[i].fill_(first + static_cast<double>(i));
                }
                *memory = gradients[0].storage().data();
                return gradients;
              });
  return out;
}

// [2,3,C] whose columns are filled with values[i], sizes[i] wide each.
at::Tensor Columns(const std::vector<std::int64_t>& sizes, const std::vector<double>& values) {
  std::vector<at::Tensor> columns;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    columns.push_back(at::full({2, 3, sizes[i]}, values[i], at::kDouble));
  }
  return at::cat(columns, -1);
}

TEST_CASE("columns: the gradients of several functions lie together, others join them") {
  const at::Tensor x = RandomNormal({2, 3, 26}, 1).requires_grad_(true);
  const auto columns = SplitColumns(x, {8, 8, 4, 2, 3, 1});
  CHECK(BitwiseEqual(columns[2], x.detach().narrow(-1, 16, 4)));
  CHECK(columns[2].storage().is_alias_of(x.storage()));
  const void* memory = nullptr;
  const void* memory_of_gate = nullptr;
  const at::Tensor consumed =
      Consume({columns[0].unflatten(-1, {2, 4}), columns[1].unflatten(-1, {2, 4}),
               columns[2].unflatten(-1, {2, 2})},
              1, &memory);
  const at::Tensor gate = Consume({columns[3]}, 4, &memory_of_gate);
  (consumed + gate + (columns[4] * 5).sum()).backward();  // nothing uses the last column
  CHECK(BitwiseEqual(x.grad(), Columns({8, 8, 4, 2, 3, 1}, {1, 2, 3, 4, 5, 0})));
  CHECK(x.grad().storage().data() == memory);
  CHECK(memory_of_gate == memory);
}

TEST_CASE("columns: columns of columns have their gradients in the same matrix") {
  const at::Tensor x = RandomNormal({2, 3, 9}, 1).requires_grad_(true);
  const auto outer = SplitColumns(x, {6, 2});  // and one of padding
  const auto inner = SplitColumns(outer[0], {4, 2});
  const void* memory = nullptr;
  const void* memory_of_outer = nullptr;
  const at::Tensor consumed = Consume({inner[0].unflatten(-1, {2, 2})}, 1, &memory);
  (consumed + (inner[1] * 3).sum() + Consume({outer[1]}, 2, &memory_of_outer)).backward();
  CHECK(BitwiseEqual(x.grad(), Columns({4, 2, 2, 1}, {1, 3, 2, 0})));
  CHECK(x.grad().storage().data() == memory);
  CHECK(memory_of_outer == memory);
}

TEST_CASE("columns: the gradients of columns that two functions take are added up") {
  const at::Tensor x = RandomNormal({2, 3, 6}, 1).requires_grad_(true);
  const auto columns = SplitColumns(x, {4, 2});
  const void* memory = nullptr;
  (Consume({columns[0]}, 1, &memory) + Consume({columns[0], columns[1]}, 2, &memory)).backward();
  CHECK(BitwiseEqual(x.grad(), Columns({4, 2}, {3, 3})));
}

TEST_CASE("columns: another backward pass leaves the gradients of the last alone") {
  const at::Tensor x = RandomNormal({2, 3, 6}, 1).requires_grad_(true);
  const at::Tensor leaf = at::ones({}, at::kDouble).requires_grad_(true);
  const auto columns = SplitColumns(x, {4, 2});
  const void* memory = nullptr;
  const at::Tensor out = Consume({columns[0]}, 1, &memory) * leaf + (columns[1] * leaf).sum();
  out.backward({}, /*retain_graph=*/true);
  const at::Tensor gradient = x.grad();
  x.mutable_grad().reset();
  out.backward();
  CHECK(gradient.storage().data() != memory);
  CHECK(BitwiseEqual(gradient, Columns({4, 2}, {1, 1})));
  CHECK(BitwiseEqual(x.grad(), gradient));
  CHECK_FALSE(x.grad().storage().is_alias_of(gradient.storage()));
}

TEST_CASE("columns: who writes the padding is told so, once") {
  const at::Tensor x = RandomNormal({2, 3, 8}, 1).requires_grad_(true);
  const auto columns = SplitColumns(x, {3, 2});
  std::vector<std::int64_t> paddings;
  at::Tensor out = at::zeros({}, at::kDouble);
  for (const at::Tensor& column : columns) {
    const at::Tensor part = at::zeros({}, at::kDouble);
    SetBackward(
        "Pad", {column}, {part}, {column},
        [&paddings](const BackwardArgs& args) -> std::vector<at::Tensor> {
          const auto [gradient, padding] = EmptyWithPadding(args.saved[0]);
          paddings.push_back(padding);
          const std::int64_t size = gradient.size(-1);
          gradient.as_strided({2, 3, size + padding}, gradient.strides(), gradient.storage_offset())
              .fill_(0);
          gradient.fill_(static_cast<double>(size));
          return {gradient};
        });
    out = out + part;
  }
  out.backward();
  std::sort(paddings.begin(), paddings.end());
  CHECK(paddings == std::vector<std::int64_t>{0, 3});
  CHECK(BitwiseEqual(x.grad(), Columns({3, 2, 3}, {3, 2, 0})));
}

TEST_CASE("columns: a matrix that someone else still holds is not written to") {
  const at::Tensor x = RandomNormal({2, 3, 4}, 1).requires_grad_(true);
  const at::Tensor held = at::ones({2, 3, 4}, at::kDouble);
  const auto columns = SplitColumns(x, {3, 1});
  const at::Tensor out = at::zeros({}, at::kDouble);
  SetBackward(
      "Hold", {columns[0]}, {out}, {},
      [&held](const BackwardArgs&) -> std::vector<at::Tensor> { return {held.narrow(-1, 0, 3)}; });
  (out + (columns[1] * 7).sum()).backward();
  CHECK(held.equal(at::ones({2, 3, 4}, at::kDouble)));
  CHECK(x.grad().narrow(-1, 3, 1).eq(7).all().item<bool>());
}

TEST_CASE("columns: gradients of other tensors get memory of their own") {
  const at::Tensor x = RandomNormal({2, 3, 8}, 1).requires_grad_(true);
  const auto columns = SplitColumns(x, {4, 4});
  const auto others = SplitColumns(x, {4, 4});
  CHECK(AreColumns(columns[0].unflatten(-1, {2, 2})));
  CHECK_FALSE(AreColumns(columns[0].narrow(1, 0, 2)));  // not all rows
  CHECK_FALSE(AreColumns(x));
  const auto mixed = EmptyTogether({columns[0], others[1], columns[1]});
  CHECK(mixed[0].storage().is_alias_of(mixed[2].storage()));
  CHECK(mixed[2].storage_offset() == 4);
  CHECK_FALSE(mixed[0].storage().is_alias_of(mixed[1].storage()));
  CHECK(mixed[1].storage_offset() == 4);
  for (const auto& tensors : {std::vector{columns[0], columns[0].narrow(-1, 3, 1)},
                              std::vector{columns[0].detach(), columns[1].detach()}}) {
    const auto results = EmptyTogether(tensors);
    CHECK(results[0].is_contiguous());
    CHECK_FALSE(results[0].storage().is_alias_of(results[1].storage()));
  }
}

TEST_CASE("linear: formula and gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({5, 4}, 2),
                                          RandomNormal({5}, 3)};
  const auto function = [](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {Linear(x[0], x[1], x[2])};
  };
  CHECK(RelativeError(function(inputs)[0], inputs[0].matmul(inputs[1].t()) + inputs[2]) <
        kFloat64Tolerance);
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK(Linear(inputs[0].to(at::kBFloat16), inputs[1].to(at::kFloat), {}).scalar_type() ==
        at::kBFloat16);
}

TEST_CASE("linear: some columns of all rows, others of chosen ones") {
  const RowSelection rows{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const std::vector<at::Tensor> inputs = {RandomNormal({2, 3, 4}, 1), RandomNormal({7, 4}, 2),
                                          RandomNormal({7}, 3)};
  const auto columns = [](const std::vector<at::Tensor>& x, const RowSelection* selection) {
    return LinearColumns(x[0], x[1], x[2], {{2, true}, 1, {4, true}}, selection);
  };
  const at::Tensor whole = Linear(inputs[0], inputs[1], inputs[2]);
  const auto all = columns(inputs, nullptr);
  CHECK(BitwiseEqual(all[0], whole.narrow(-1, 0, 2)));
  CHECK(BitwiseEqual(all[2], whole.narrow(-1, 3, 4)));
  const auto some = columns(inputs, &rows);
  CHECK(BitwiseEqual(some[0], GatherRows(all[0], rows)));
  CHECK(BitwiseEqual(some[1], all[1]));
  CHECK(BitwiseEqual(some[2], GatherRows(all[2], rows)));
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto y = columns(x, &rows);  // without the entry that only fills
    return {y[0].narrow(0, 0, 3), y[1], y[2].narrow(0, 0, 3)};
  };
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK_THROWS_WITH(LinearColumns(inputs[0], inputs[1], {}, {2, 4}),
                    Catch::Contains("the blocks have out columns"));
}

TEST_CASE("linear: which sizes get their gradients in one pass, and how they are cut") {
  struct Case {
    LinearBackwardSizes sizes;
    int panels;  // of a warpgroup
    bool has_tail;
  };
  for (const auto& [sizes, panels, has_tail] :
       {Case{{65536, 128, 384, true}, 3, false}, Case{{65536, 128, 400}, 3, true},
        Case{{65536, 128, 272}, 2, true}, Case{{65536, 128, 272, true}, 3, false},
        Case{{65536, 128, 528}, 4, true}, Case{{65536, 256, 128}, 1, false},
        Case{{65536, 256, 152}, 2, false}, Case{{32768, 64, 192, true}, 2, false},
        Case{{4096, 64, 8}, 1, false}}) {
    CAPTURE(sizes.in, sizes.out, sizes.has_bias);
    CHECK(LinearBackwardTakes(sizes));
    CHECK(CutLinearColumns(sizes).panels == panels);
    CHECK(CutLinearColumns(sizes).has_tail == has_tail);
    CHECK(2 * kLinearTile * panels + (has_tail ? 16 : 0) >= sizes.out);
  }
  CHECK_FALSE(LinearBackwardTakes({4095, 128, 384}));         // few rows
  CHECK_FALSE(LinearBackwardTakes({65536, 96, 384}));         // a width between
  CHECK_FALSE(LinearBackwardTakes({65536, 128, 386}));        // rows that are not aligned
  CHECK_FALSE(LinearBackwardTakes({65536, 128, 536}));        // too many sums
  CHECK_FALSE(LinearBackwardTakes({65536, 128, 400, true}));  // with those of the bias
  CHECK(LinearBackwardParts({65536, 128, 400}) == 66);
  CHECK(LinearBackwardParts({65536, 256, 400}) == 33);
  CHECK(LinearBackwardParts({65, 64, 400}) == 2);
  CHECK(LinearBackwardScratch({65536, 128, 400}) == 66 * (128 + 2) * 400);
}

TEST_CASE("linear: of which sizes the weight stays in shared memory, and what lies beside it") {
  constexpr long long kSharedBytes = 227 * 1024;  // of a block
  for (const auto& [sizes, groups, panels, stages] :
       {std::tuple{LinearForwardSizes{65536, 128, 384}, 3, 6, 3},
        std::tuple{LinearForwardSizes{65536, 128, 528}, 2, 9, 2},
        std::tuple{LinearForwardSizes{65536, 128, 136}, 3, 3, 6},
        std::tuple{LinearForwardSizes{32768, 64, 192}, 3, 3, 6}}) {
    CAPTURE(sizes.in, sizes.out);
    CHECK(LinearForwardTakes(sizes));
    const LinearForwardCut cut = CutLinearForward(sizes);
    CHECK(cut.num_groups == groups);
    CHECK(cut.num_panels == panels);
    CHECK(cut.num_stages == stages);
    CHECK(cut.bytes <= kSharedBytes);
  }
  CHECK_FALSE(LinearForwardTakes({4096, 128, 384}));  // few rows
  CHECK(LinearForwardTakes({65536, 128, 128}));
  CHECK_FALSE(LinearForwardTakes({131072, 128, 64}));  // more read than written
  CHECK_FALSE(LinearForwardTakes({65536, 96, 384}));   // a width between
  CHECK_FALSE(LinearForwardTakes({65536, 128, 388}));  // rows that are not aligned
  CHECK_FALSE(LinearForwardTakes({65536, 128, 648}));  // too large a weight
}

TEST_CASE("linear: rows get products of their own when much is left out") {
  CHECK(FormsRowsApart(65536, 4096, 128));
  CHECK_FALSE(FormsRowsApart(65536, 32768, 128));  // not few
  CHECK_FALSE(FormsRowsApart(32768, 2048, 64));    // few bytes
  CHECK_FALSE(FormsRowsApart(65536, 4096, 0));
}

TEST_CASE("rows: added where they were taken, once") {
  const RowSelection selection{Longs({4, 1, 0, 0}), Longs({2, 1, 4, 4, 0, 4})};
  const at::Tensor x = RandomNormal({6, 5}, 1);
  const at::Tensor source = RandomNormal({4, 5}, 2);
  at::Tensor expected = x.clone();
  expected[4] += source[0];
  expected[1] += source[1];
  expected[0] += source[2];  // entry 3 only fills
  AddRows(x, source, selection);
  CHECK(BitwiseEqual(x, expected));
}

TEST_CASE(
    "linear cross-entropy: the loss of a linear layer, with and without bias, and gradients") {
  const std::vector<at::Tensor> inputs = {RandomNormal({4, 3}, 1), RandomNormal({5, 3}, 2),
                                          RandomNormal({5}, 3)};
  const at::Tensor targets = Longs({4, -1, 0, 4});
  const auto function = [&](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    return {LinearCrossEntropy(x[0], x[1], x.size() > 2 ? x[2] : at::Tensor(), targets)};
  };
  const at::Tensor exponentials = (inputs[0].matmul(inputs[1].t()) + inputs[2]).exp();
  const at::Tensor softmax = exponentials / exponentials.sum(1, true);
  const at::Tensor wanted = -(softmax[0][4] * softmax[2][0] * softmax[3][4]).log() / 3;
  CHECK(RelativeError(function(inputs)[0], wanted) < kFloat64Tolerance);
  CHECK(GradientCheckError(function, inputs) < kGradientCheckTolerance);
  CHECK(GradientCheckError(function, {inputs[0], inputs[1]}) < kGradientCheckTolerance);
}

TEST_CASE("linear cross-entropy: which sizes have device functions, and how they are cut") {
  CHECK(LinearCrossEntropyTakes({4096, 8192, 128}));
  CHECK(LinearCrossEntropyTakes({1, 8191, 64}));
  CHECK_FALSE(LinearCrossEntropyTakes({4096, 8192, 96}));
  CHECK_FALSE(LinearCrossEntropyTakes({4096, 1000, 128}));
  CHECK_FALSE(LinearCrossEntropyTakes({0, 8192, 128}));
  const auto cut = [](long long num_rows, int vocab_size) {
    const auto [padded_rows, num_parts] = CutLinearCrossEntropy({num_rows, vocab_size, 128});
    return std::vector<long long>{padded_rows, num_parts};
  };
  CHECK(cut(4096, 8192) == std::vector<long long>{4096, 4});
  CHECK(cut(2001, 8192) == std::vector<long long>{2048, 8});
  CHECK(cut(1, 300) == std::vector<long long>{128, 3});
  CHECK(cut(1 << 20, 8192) == std::vector<long long>{1 << 20, 1});
}

TEST_CASE("short convolution: each token sees the last inputs, then activation and norm") {
  const at::Tensor x = RandomNormal({2, 6, 5}, 1);
  const at::Tensor weight = RandomNormal({5, 3}, 2);
  const at::Tensor bias = RandomNormal({5}, 3);
  at::Tensor z = at::zeros({2, 6, 5}, x.options());
  for (std::int64_t t = 0; t < 6; ++t) {
    at::Tensor sum = bias.expand({2, 5}).clone();
    for (std::int64_t m = 0; m < 3; ++m) {
      if (t - 2 + m >= 0) sum += weight.select(1, m) * x.select(1, t - 2 + m);
    }
    z.select(1, t).copy_(sum);
  }
  CHECK(RelativeError(ShortConvolution({.x = x, .weight = weight, .bias = bias}), z) <
        kFloat64Tolerance);
  const at::Tensor y = z * z.sigmoid();
  const at::Tensor heads = y.narrow(-1, 0, 4).unflatten(-1, {2, 2});
  const at::Tensor normalised = heads / (heads.square().sum(-1, true) + 1e-6).sqrt();
  const at::Tensor out = ShortConvolution(
      {.x = x, .weight = weight, .bias = bias, .silu = true, .norm_channels = 4, .norm_dim = 2});
  CHECK(RelativeError(out.narrow(-1, 0, 4), normalised.flatten(-2)) < kFloat64Tolerance);
  CHECK(RelativeError(out.narrow(-1, 4, 1), y.narrow(-1, 4, 1)) < kFloat64Tolerance);
  const auto function = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {ShortConvolution({.x = in[0],
                              .weight = in[1],
                              .bias = in[2],
                              .silu = true,
                              .norm_channels = 4,
                              .norm_dim = 2})};
  };
  CHECK(GradientCheckError(function, {x, weight, bias}) < kGradientCheckTolerance);
}

TEST_CASE("short convolution: sizes that the device function takes") {
  CHECK(ShortConvolutionSupports(384, 4, 256, 64));
  CHECK(ShortConvolutionSupports(128, 3, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(128, 5, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(132, 4, 0, 0));
  CHECK_FALSE(ShortConvolutionSupports(128, 4, 64, 4));
  CHECK_FALSE(ShortConvolutionSupports(192, 4, 96, 48));
}

TEST_CASE("rotary: pairs turn by position times frequency, and only differences matter") {
  constexpr double kTolerance = 1e-12;
  const at::Tensor x = at::ones({1, 2, 1, 6}, at::TensorOptions(at::kDouble));
  const at::Tensor turned =
      RotateHalf(x, 3, 4, ExecutionPath::kReference, 100);  // frequencies 1 and 0.1
  const auto element = [&](std::int64_t t, std::int64_t c) {
    return turned[0][t][0][c].item<double>();
  };
  CHECK(std::abs(element(0, 0) - (std::cos(3) - std::sin(3))) < kTolerance);
  CHECK(std::abs(element(0, 2) - (std::cos(3) + std::sin(3))) < kTolerance);
  CHECK(std::abs(element(1, 1) - (std::cos(0.4) - std::sin(0.4))) < kTolerance);
  CHECK(element(1, 5) == 1);
  const at::Tensor q = RandomNormal({1, 1, 1, 6}, 1);
  const at::Tensor k = RandomNormal({1, 1, 1, 6}, 2);
  const auto product = [&](std::int64_t i, std::int64_t j) {
    return (RotateHalf(q, i, 6) * RotateHalf(k, j, 6)).sum().item<double>();
  };
  CHECK(std::abs(product(5, 2) - product(1'000'005, 1'000'002)) < 1e-9);  // angles near 1e6
}

TEST_CASE("output norm: formula and gradients of every gate") {
  const at::Tensor x = RandomNormal({2, 3, 2, 5}, 1);
  const at::Tensor gate = RandomNormal({2, 3, 2, 5}, 2);
  const at::Tensor weight = RandomNormal({5}, 3);
  const at::Tensor rms = x / (x.square().mean(-1, true) + 1e-5).sqrt() * weight;
  const auto norm = [](GateActivation activation) {
    return [activation](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
      return {OutputNorm({.x = in[0], .gate = in[2], .weight = in[1], .activation = activation})};
    };
  };
  const auto none = norm(GateActivation::kNone);
  const auto silu = norm(GateActivation::kSilu);
  const auto sigmoid = norm(GateActivation::kSigmoid);
  CHECK(RelativeError(none({x, weight, {}})[0], rms) < kFloat64Tolerance);
  CHECK(RelativeError(silu({x, weight, gate})[0], rms * gate * gate.sigmoid()) < kFloat64Tolerance);
  CHECK(RelativeError(sigmoid({x, weight, gate})[0], rms * gate.sigmoid()) < kFloat64Tolerance);
  CHECK(GradientCheckError(silu, {x, weight, gate}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(sigmoid, {x, weight, gate}) < kGradientCheckTolerance);
}

TEST_CASE("adamw: two steps by the formula, with a decay for each tensor and clipping") {
  const at::Tensor rate = at::full({}, 0.1, at::kFloat);
  for (const double clip : {0.0, 0.5}) {
    std::vector<AdamWTensor> tensors;
    std::vector<at::Tensor> expected, m, v;
    for (std::uint64_t i = 0; i < 2; ++i) {
      const at::Tensor start = RandomNormal({3, 2}, 1 + i, at::kFloat);
      const double decay = i == 0 ? 0.1 : 0;
      tensors.push_back({start.clone(), RandomNormal({3, 2}, 5 + i, at::kFloat), at::zeros({3, 2}),
                         at::zeros({3, 2}), decay});
      expected.push_back(start.to(at::kDouble));
      m.push_back(at::zeros({3, 2}, at::kDouble));
      v.push_back(at::zeros({3, 2}, at::kDouble));
    }
    for (int step = 1; step <= 2; ++step) {
      AdamWStep(tensors, rate, at::full({}, step, at::kFloat), {.eps = 1e-3, .grad_clip = clip});
      double squares = 0;
      for (const auto& tensor : tensors) {
        squares += tensor.gradient.to(at::kDouble).square().sum().item<double>();
      }
      const double scale = clip > 0 ? std::min(1.0, clip / (std::sqrt(squares) + 1e-6)) : 1;
      for (std::size_t i = 0; i < 2; ++i) {
        const at::Tensor g = tensors[i].gradient.to(at::kDouble) * scale;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        const at::Tensor first = m[i] / (1 - std::pow(0.9, step));
        const at::Tensor second = v[i] / (1 - std::pow(0.999, step));
        expected[i] = expected[i] * (1 - 0.1 * tensors[i].weight_decay) -
                      0.1 * first / (second.sqrt() + 1e-3);
      }
    }
    constexpr double kFloat32 = 1e-5;
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(RelativeError(tensors[i].parameter, expected[i]) < kFloat32);
    }
  }
}

TEST_CASE("gates: formulas and gradients") {
  const at::Tensor z = RandomNormal({2, 3, 4}, 1) * 2;
  CHECK(RelativeError(LogSigmoidDecay(z, 16), z.sigmoid().log() / 16) < kFloat64Tolerance);
  CHECK(LogSigmoidDecay(z, 1, -0.5).min().item<double>() == -0.5);
  const at::Tensor A_log = RandomNormal({2}, 2);
  const at::Tensor dt_bias = RandomNormal({2}, 3);
  const auto gates =
      ComputeDeltaGates({.z = z, .beta_scale = 2, .A_log = A_log, .dt_bias = dt_bias});
  CHECK(RelativeError(gates.beta, 2 * z.narrow(-1, 0, 2).sigmoid()) < kFloat64Tolerance);
  CHECK(
      RelativeError(gates.log_decay, -A_log.exp() * (z.narrow(-1, 2, 2) + dt_bias).exp().log1p()) <
      kFloat64Tolerance);
  CHECK_FALSE(ComputeDeltaGates({.z = z}).log_decay.defined());
  CHECK(ComputeDeltaGates({.z = z.to(at::kBFloat16)}).beta.scalar_type() == at::kFloat);
  CHECK(RelativeError(Swiglu(z), z.narrow(-1, 0, 2) * z.narrow(-1, 0, 2).sigmoid() *
                                     z.narrow(-1, 2, 2)) < kFloat64Tolerance);
  const auto decay = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {LogSigmoidDecay(in[0], 4)};
  };
  const auto both = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    const auto result = ComputeDeltaGates({.z = in[0], .A_log = in[1], .dt_bias = in[2]});
    return {result.beta, result.log_decay};
  };
  const auto swiglu = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {Swiglu(in[0])};
  };
  CHECK(GradientCheckError(decay, {z}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(both, {z, A_log, dt_bias}) < kGradientCheckTolerance);
  CHECK(GradientCheckError(swiglu, {z}) < kGradientCheckTolerance);
}

}  // namespace
}  // namespace mixerbench::kernels::fused
