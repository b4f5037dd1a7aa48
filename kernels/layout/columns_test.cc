// The reference against its formula, its gradients against central differences. That a GPU computes
// the same is shown by tests/gpu/operations_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/layout/columns.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "kernels/runtime/differentiable.h"
#include "tests/support/compare.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

#include "tests/support/catch2.h"

namespace mixerbench::kernels {
namespace {

using testing::BitwiseEqual;
using testing::RandomNormal;

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

}  // namespace
}  // namespace mixerbench::kernels
